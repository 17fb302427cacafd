"""The faults that `mutants.py` puts into the code, by folder of the package.

Each is (file, text that occurs there exactly once, text that replaces it, tests that should notice). Change a fault
together with its code: `mutants.py --check` names the faults that no longer fit the code, and with `--move` it corrects
the file of those whose code was moved. A test of the suite runs the check.
"""

from __future__ import annotations

FAULTS: list[tuple[str, str, str, str]] = [
    # -- (root) --------------------------------------------------------------------------------------------------------
    (
        "minitune/_parts.py",
        "        prefix = f\"{component_seed(seed, 'ids'):08x}\"[:5]\n",
        "        pass\n",
        "tests/differential/test_deterministic.py::test_one_table_on_any_machine_that_of_the_virtual_one",
    ),
    (
        "minitune/config.py",
        "                self.__dict__.update(before)",
        "                self._put(name, before[name])",
        "tests/surface/test_bad_input.py::test_bad_values_are_refused_at_once_with_rule_value_and_way_out",
    ),
    (
        "minitune/sklearn/__init__.py",
        '.split(".")[:2]) < _OLDEST:\n',
        '.split(".")[:2]) < (1,):\n',
        "tests/test_import.py::test_the_search_for_scikit_learn_tells_how_to_install_it",
    ),
    (
        "minitune/space/domains.py",
        "            self.categories = sorted(categories, key=lambda value: (type(value).__name__, repr(value)))",
        "            self.categories = list(categories)  # as they come",
        "tests/search/test_basic_variant.py::test_a_table_is_the_same_in_every_process",
    ),
    (
        "minitune/space/domains.py",
        "space.keys() == value.keys() and all(fits(space[key], value[key], by_functions) for key in space)",
        "all(fits(space[key], value.get(key), by_functions) for key in space)",
        "tests/search/test_variants.py::test_what_a_space_could_resolve_to",
    ),
    (
        "minitune/_driver.py",
        "            self._keeper.save()  # before the searcher learns that all ended: a resume continues them\n",
        "",
        "tests/resume/test_plugin_states.py::test_a_searcher_that_was_told_of_an_interrupt_does_not_remember_that",
    ),
    (
        "minitune/_driver.py",
        "                self.hooks.experiment_ends(self.state.trials, after_error=True)\n",
        "                pass\n",
        "tests/controller/test_driver_plugin_errors.py::test_the_error_names_the_hook_and_the_trial_and_t"
        "he_run_can_go_on",
    ),
    (
        "minitune/output/live.py",
        "    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in running)",
        "    done = ended",
        "tests/output/test_live_view.py::test_time_left_is_a_guess_or_nothing",
    ),
    (
        "minitune/output/trial_output.py",
        "        left_out_bytes = source - begin + (before.left_out_bytes - before.note_bytes if before "
        "is not None else 0)",
        "        left_out_bytes = source - begin",
        "tests/output/test_output_limit.py::test_the_beginning_and_the_end_are_kept_line_by_line_however_"
        "often_it_is_cut",
    ),
    (
        "minitune/execution/hooks.py",
        "EARLY_ENDS = (INTERRUPTED_BY, STOPPER_ENDS, FAIL_FAST)",
        "EARLY_ENDS = (INTERRUPTED_BY, FAIL_FAST)",
        "tests/testing/test_ci_command.py::test_a_run_that_the_budget_cuts_short_passes_and_says_so",
    ),
    (
        "minitune/record/story.py",
        '        trial.stopped_by = record.get("stopped_by", "")',
        '        trial.stopped_by = ""',
        "tests/commands/test_looking.py::test_a_trial_that_a_scheduler_has_stopped_says_which",
    ),
    (
        "minitune/output/live.py",
        "if len({*nodes} - {None}) > 1 else []),",
        "if len({*nodes}) > 1 else []),",
        "tests/output/test_live_view.py::test_the_nodes_are_shown_if_there_are_several",
    ),
    (
        "minitune/output/table.py",
        "for name, total in self.totals.items() if total and self._used(name)",
        "for name, total in self.totals.items() if self._used(name)",
        "tests/output/test_progress_reporter.py::test_what_a_machine_does_not_have_is_in_the_block_and_not_in_the_live_view",
    ),
    (
        "minitune/output/progress.py",
        "    if total_samples == 1 and any(not isinstance(domain.sampler, Grid) for domain in searched):",
        "    if total_samples == 1:",
        "tests/output/test_output_of_a_run.py::test_the_hint_is_told_once_where_the_error_is_raised",
    ),
    (
        "minitune/commands/why.py",
        "    ends = sum(other.results[number].config[CURVE] in run.cut for number in returned)",
        "    ends = 0",
        "tests/simulation/test_replay_and_explain.py::test_replay_says_that_curves_are_cut",
    ),
    (
        "minitune/_resume.py",
        "        return not is_fresh or saves_itself(component, plugin)",
        "        return True",
        "tests/resume/test_plugin_states.py::test_a_scheduler_that_is_given_again_has_the_arguments_that_it_is_given",
    ),
    (
        "minitune/_resume.py",
        "        return (replay.was_ended or self._is_closed) and not add_samples",
        "        return replay.was_ended or self._is_closed",
        "tests/resume/test_resume_choices.py::test_a_run_that_its_stopper_had_ended_is_extended_if_that_is_wanted",
    ),
    (
        "minitune/_resume.py",
        "        return (replay.was_ended or self._is_closed) and not add_samples",
        "        return replay.was_ended and not add_samples",
        "tests/resume/test_other_space.py",
    ),
    (
        "minitune/_resume.py",
        "        if one.has_keys and not changes:\n            return one.path",
        "        return one.path",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/space/difference.py",
        "(before == now or (before != before and now != now))",
        "(before == now)",
        "tests/resume/test_other_space.py",
    ),
    (
        "minitune/_resume.py",
        "        for donation in state.donations.values():\n"
        "            recorder.pin(donation.donor, donation.record)\n",
        "",
        "tests/controller/test_driver_resume.py::test_an_exploit_that_was_cut_off_is_still_carried_out",
    ),
    (
        "minitune/space/domains.py",
        '    return random.Random(f"{seed}/{component}").getrandbits(32)',
        '    return random.Random(f"{seed}").getrandbits(32)',
        "tests/search/test_global_draws.py::test_parts_of_a_run_draw_from_seeds_of_their_own",
    ),
    (
        "minitune/output/summary.py",
        "        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or "
        "value <= self.at_most)",
        "        return (self.at_least is None or value >= self.at_least) or (self.at_most is None or "
        "value <= self.at_most)",
        "tests/testing/test_ci_command.py::test_a_failed_trial_and_a_missed_target_fail",
    ),
    (
        "minitune/output/summary.py",
        "            if file.tell() + len(data) <= limit_bytes:",
        "            if file.tell() <= limit_bytes:",
        "tests/testing/test_summaries.py::test_the_page_does_not_grow_without_bound",
    ),
    (
        "minitune/output/summary.py",
        "    if not (page or record) or current_session() is not None:",
        "    if not (page or record):",
        "tests/testing/test_summaries.py::test_a_run_within_a_trial_does_not",
    ),
    (
        "minitune/output/table.py",
        "        if rank is not None and status == TERMINATED:\n"
        "            chosen += sorted(ordered, key=rank)[: shares[status]]",
        "        if rank is not None and status == TERMINATED:\n            chosen += ordered[: shares[status]]",
        "tests/output/test_progress_reporter.py::test_the_end_of_a_small_run",
    ),
    (
        "minitune/base/table.py",
        "[column.brief or column for column in self.columns]",
        "[*self.columns]",
        "tests/output/test_live_view.py::test_the_objective_and_the_parameters_are_dropped_last",
    ),
    (
        "minitune/base/table.py",
        'better = min if mode == "min" else max',
        "better = min",
        "tests/output/test_html.py::test_the_line_of_the_best_has_a_step_for_each_better_value",
    ),
    (
        "minitune/output/progress.py",
        "outputs if self.executor.isolates else ()",
        "outputs",
        "tests/output/test_live_view.py::test_one_line_tells_where_prints_go",
    ),
    (
        "minitune/output/table.py",
        'else -value if goal.mode == "max" else value',
        "else value",
        "tests/output/test_html.py::test_where_more_is_better_the_largest_value_comes_first",
    ),
    (
        "minitune/base/table.py",
        "<{tag}{kind}>{_escaped(cell)}</{tag}>",
        "<{tag}{kind}>{cell}</{tag}>",
        "tests/output/test_output_of_a_run.py::test_a_notebook_reporter_of_the_users",
    ),
    (
        "minitune/output/trial_output.py",
        "                shown[path] = min(shown.get(path, 0), size_bytes)  # its middle may have been left out",
        "                shown.setdefault(path, 0)",
        "tests/output/test_output_of_trials.py::test_it_goes_on_where_the_file_of_it_has_become_shorter",
    ),
    (
        "minitune/checkpoint.py",
        "            os.fchmod(writer.fileno(), mode)\n",
        "            pass\n",
        "tests/trainable/test_checkpoint.py::test_a_copy_has_the_modes_of_its_source",
    ),
    (
        "minitune/checkpoint.py",
        "        discard_temporary(temporary, trial_directory)\n        raise\n",
        "        raise\n",
        "tests/trainable/test_checkpoint.py::test_a_copy_that_fails_leaves_nothing_behind",
    ),
    (
        "minitune/checkpoint.py",
        "    if os.path.islink(source):\n        to = os.readlink(source)\n",
        "    if os.path.islink(source):\n"
        "        source = os.path.realpath(source)\n"
        "    if os.path.islink(source):\n"
        "        to = os.readlink(source)\n",
        "tests/faults/test_faults_files_links.py::test_links_of_the_users_own_are_followed_and_kept",
    ),
    (
        "minitune/checkpoint.py",
        "                    if leave_out is not None and leave_out.fullmatch(name):\n",
        "                    if False:\n",
        "tests/trainable/test_report.py::test_the_trials_own_directory_is_saved_without_its_checkpoints",
    ),
    (
        "minitune/checkpoint.py",
        "            crc = zlib.crc32(whole[:count], crc)\n",
        "            crc = zlib.crc32(whole[:count])\n",
        "tests/trainable/test_checkpoint.py::test_a_file_with_holes_has_the_record_of_the_same_file_without",
    ),
    (
        "minitune/clock.py",
        "            self.now_s = max(self.now_s + duration_s, math.nextafter(self.now_s, math.inf))",
        "            self.now_s += duration_s",
        "tests/simulation/test_replay_and_explain.py::test_a_virtual_clock_moves_however_little_it_is_to",
    ),
    (
        "minitune/base/pickling.py",
        "                if id(part) in self._seen or self.can_pickle(part):",
        "                if self.can_pickle(part):",
        "tests/trainable/test_pickling.py::test_the_path_to_the_culprit_is_named",
    ),
    (
        "minitune/base/pickling.py",
        "        self.size_bytes += buffer.raw().nbytes\n",
        "",
        "tests/trainable/test_pickling.py::test_a_pickle_is_small_only_if_its_buffers_are",
    ),
    (
        "minitune/base/pickling.py",
        "    return found if isinstance(found, type) else pickle.loads(copy)",
        "    return pickle.loads(copy)",
        "tests/trainable/test_pickling.py::test_a_value_kept_for_later_gets_the_class_that_the_script_has_then",
    ),
    (
        "minitune/resources.py",
        "    return {name: amount for name, amount in clean.items() if amount}",
        "    return clean",
        "tests/resources/test_requests.py::test_a_dict_is_one_bundle",
    ),
    (
        "minitune/result.py",
        "        flat.update(deeper)\n        return flat\n    return _flatten_deep",
        "        return {**deeper, **flat}\n    return _flatten_deep",
        "tests/results/test_metric_analysis.py::test_results_on_one_level",
    ),
    (
        "minitune/result_grid.py",
        "            kept = kept[-checkpoint_config.num_to_keep :]\n",
        "            kept = kept[: checkpoint_config.num_to_keep]\n",
        "tests/controller/test_driver_checkpoints.py::test_the_latest_and_the_best_are_kept",
    ),
    (
        "minitune/result_grid.py",
        "        config = metrics.get(CONFIG) or (trial.config if trial is not None else read_params(directory))\n",
        "        config = metrics.get(CONFIG) or (trial.config if trial is not None else {})\n",
        "tests/results/test_results.py::test_the_directory_of_a_trial_alone_tells_its_configuration",
    ),
    (
        "minitune/settings.py",
        "        if value:\n            return value\n",
        "        if variable in environ:\n            return value\n",
        "tests/entry/test_run.py::test_an_empty_variable_is_as_good_as_none",
    ),
    (
        "minitune/base/files.py",
        "            with contextlib.suppress(OSError):\n"
        "                os.unlink(temporary, dir_fd=directory)\n"
        "            raise\n",
        "            raise\n",
        "tests/trainable/test_pickling.py::test_a_value_that_cannot_be_stored_leaves_no_file",
    ),
    (
        "minitune/base/shared_values.py",
        "        if magic != _MAGIC or (spot.token and token != spot.token.encode()):",
        "        if magic != _MAGIC:",
        "tests/trainable/test_large_values.py::test_a_path_that_means_another_file_by_now_is_refused",
    ),
    (
        "minitune/base/shared_values.py",
        "        os.ftruncate(descriptor, offset)\n        raise",
        "        raise",
        "tests/trainable/test_large_values.py::test_a_value_that_cannot_be_stored_leaves_the_others",
    ),
    (
        "minitune/base/shared_values.py",
        "    if os.getpid() != owner_pid:  # a forked child must not remove its parent's file\n        return\n",
        "",
        "tests/trainable/test_large_values.py::test_a_file_with_a_name_where_one_without_cannot_be_reached",
    ),
    # -- actor ---------------------------------------------------------------------------------------------------------
    (
        "minitune/actor/messages.py",
        "    if length > MESSAGE_BYTES:\n        raise ValueError(",
        "    if length > 2 * MESSAGE_BYTES:\n        raise ValueError(",
        "tests/actor/test_frames_properties.py::test_a_body_above_the_limit_is_refused_at_its_header",
    ),
    (
        "minitune/actor/process_tree.py",
        "        self._seen = {path: min(count, self._seen.get(path, count) + 1) for path, count in now.items()}",
        "        self._seen = now",
        "tests/actor/test_memory_kills.py::test_a_kill_is_evidence_for_one_death",
    ),
    (
        "minitune/actor/process.py",
        "        self._is_dead = True\n        self._drain()\n        if self.phase in (Phase.TAKEN, Phase.MOVING):\n",
        "        self._is_dead = True\n        if self.phase in (Phase.TAKEN, Phase.MOVING):\n",
        "tests/actor/test_actor_deaths.py::test_killed_with_a_reply_in_the_pipe_and_a_child_that_holds_it",
    ),
    (
        "minitune/actor/process.py",
        "        if message.number > self._number:\n            raise ProtocolError(",
        "        if message.number > self._number + 10**9:\n            raise ProtocolError(",
        "tests/actor/test_actor_deaths.py::test_a_worker_that_answers_what_it_was_not_asked_is_killed",
    ),
    (
        "minitune/actor/process.py",
        "        self._parks = self._parks and keep\n",
        "",
        "tests/actor/test_actor_places.py::test_a_worker_that_was_to_be_kept_can_be_stopped_for_good",
    ),
    (
        "minitune/actor/surroundings.py",
        "        os.umask(self._umask)\n        for descriptor, saved",
        "        for descriptor, saved",
        "tests/runs/test_reused_workers.py::test_files_of_the_next_trial_are_not_open_to_all",
    ),
    (
        "minitune/actor/surroundings.py",
        "                if found is not handler and handler is not None:\n",
        "                if found is not handler and handler is not None and number != 15:\n",
        "tests/actor/test_actor_places.py::test_a_dirty_worker_is_handed_on_clean",
    ),
    (
        "minitune/actor/process_tree.py",
        "            if started:\n"
        "                self._hit[pid] = started\n"
        "                send_signal(pid, _SIGKILL)\n",
        "            if started:\n                send_signal(pid, _SIGKILL)\n",
        "tests/actor/test_actor_deaths.py::test_killed_with_a_reply_in_the_pipe_and_a_child_that_holds_it",
    ),
    (
        "minitune/actor/process_tree.py",
        "    if pid <= 1:  # 0 and below would mean process groups, such as our own\n        return False\n",
        "    if pid < 0:\n        return False\n",
        "tests/actor/test_actor_deaths.py::test_signals_never_go_to_whole_groups_by_accident",
    ),
    (
        "minitune/actor/worker.py",
        "        self._is_asked_to_stop = False\n        kind =",
        "        kind =",
        "tests/runs/test_reused_workers.py::test_a_signal_that_no_one_has_asked_for_ends_the_process",
    ),
    (
        "minitune/actor/worker.py",
        "        return self._is_reusable and not self._has_leftovers()\n",
        "        return self._is_reusable\n",
        "tests/runs/test_reused_workers.py::test_what_a_function_leaves_behind_ends_before_the_next_trial",
    ),
    (
        "minitune/actor/process.py",
        "            self._is_told, self._first = instead.is_told, instead.call\n",
        "            self._is_told, self._first = instead.is_told, None\n",
        "tests/actor/test_actor_places.py::test_a_process_that_fails_with_the_first_call_is_replaced",
    ),
    (
        "minitune/actor/worker.py",
        "        if any(thread.ident not in own for thread in threading.enumerate()):\n            return True\n",
        "",
        "tests/actor/test_actor_places.py::test_a_worker_with_something_left_is_not_kept",
    ),
    (
        "minitune/actor/worker.py",
        "                    if (not shown or marker in shown) and process_tree.life(pid):\n"
        "                        return True\n",
        "                pass\n",
        "tests/actor/test_actor_places.py::test_a_worker_with_something_left_is_not_kept",
    ),
    (
        "minitune/actor/zygote.py",
        "            if process_tree.session(pid) == tracked.pid or tracked.marker.encode() in shown:\n",
        "            if process_tree.session(pid) == tracked.pid:\n",
        "tests/actor/test_actor_deaths.py::test_descendants_of_every_kind_are_gone_with_the_end",
    ),
    (
        "minitune/actor/zygote.py",
        "            elif self._keep_descendants and tracked.exit_code == 0:\n",
        "            elif self._keep_descendants:\n",
        "tests/actor/test_actor_deaths.py::test_descendants_of_a_worker_that_has_crashed_do_not_stay",
    ),
    (
        "minitune/actor/zygote.py",
        "        if not (whole_group and process_tree.kill_group(tracked.pid, int(number))):\n"
        "            process_tree.send_signal(tracked.pid, int(number))\n",
        "        process_tree.send_signal(tracked.pid, int(number))\n",
        "tests/actor/test_actor_deaths.py::test_processes_of_a_trial_that_does_not_stop_may_clean_up",
    ),
    (
        "minitune/actor/zygote.py",
        "        _reseed()\n        return worker.Seat",
        "        return worker.Seat",
        "tests/actor/test_actor_start.py::test_the_preloaded_generator_of_numpy_is_not_shared",
    ),
    # -- analysis ------------------------------------------------------------------------------------------------------
    (
        "minitune/analysis/experiment_analysis.py",
        "        return best_trial(self.trials, metric, mode, scope, filter_nan_and_inf)\n",
        "        return best_trial(self.trials, metric, mode, scope)\n",
        "tests/results/test_results.py::test_values_that_are_not_finite_count_only_if_asked_for",
    ),
    (
        "minitune/analysis/experiment_analysis.py",
        '        return None if trial is None else self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")',
        "        return None if trial is None else self.get_best_checkpoint(trial, metric, mode)",
        "tests/results/test_analysis.py::test_checkpoints_of_a_trial",
    ),
    (
        "minitune/analysis/experiment_analysis.py",
        "            default_metric = default_metric or (DEFAULT_METRIC if default_mode else None)",
        "            default_metric = default_metric",
        "tests/results/test_analysis.py::test_the_default_metric",
    ),
    (
        "minitune/analysis/experiment_analysis.py",
        "                level[key] = math.nan if value is None else _INFINITIES[value]",
        "                level[key] = math.nan",
        "tests/results/test_results.py::test_only_what_must_be_a_number_becomes_one_again",
    ),
    # -- base ----------------------------------------------------------------------------------------------------------
    (
        "minitune/base/files.py",
        "                if sync:\n                    sync_descriptor(descriptor)\n            refuse",
        "            refuse",
        "tests/storage/test_syncs.py::test_a_file_is_on_the_disk_before_its_name_and_the_name_before_it_counts",
    ),
    (
        "minitune/base/files.py",
        "        sync_directory(top)\n        yield\n",
        "",
        "tests/storage/test_syncs.py::test_a_checkpoint_is_settled_from_the_inside_out",
    ),
    (
        "minitune/base/files.py",
        "found = [(entry.name, entry.is_dir(follow_symlinks=False)) for",
        "found = [(entry.name, entry.is_dir()) for",
        "tests/storage/test_files.py::test_links_in_a_tree_are_removed_and_not_followed",
    ),
    (
        "minitune/base/files.py",
        "BLOB_MODE = 0o600",
        "BLOB_MODE = 0o644",
        "tests/storage/test_journal_codec.py::test_large_objects_go_to_a_file_of_their_own",
    ),
    # -- commands ------------------------------------------------------------------------------------------------------
    (
        "minitune/cli.py",
        "        if not isinstance(error, ERRORS):\n            raise\n",
        "",
        "tests/test_command_line.py::test_an_error_of_a_command_is_one_line_and_a_defect_is_not_hidden",
    ),
    (
        "minitune/commands/health.py",
        '    value = max(high for _, high in found) if target.mode == "max" else min(low for low, _ in found)\n',
        "    value = max(high for _, high in found)\n",
        "tests/testing/test_ci_command.py::test_a_failed_trial_and_a_missed_target_fail",
    ),
    (
        "minitune/commands/health.py",
        "        if seen.is_unfinished and state_of(seen).can_go_on:\n",
        "        if seen.is_unfinished:\n",
        "tests/commands/test_doctor.py::test_a_living_run_is_no_leftover_and_a_killed_one_is",
    ),
    (
        "minitune/commands/health.py",
        "all(one.pid == 1 or _is_of_trial(one) for one in process.parents())",
        "True",
        "tests/commands/test_doctor.py::test_a_living_run_is_no_leftover_and_a_killed_one_is",
    ),
    (
        "minitune/commands/look.py",
        "        rows = [*sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc), *missing]\n",
        "        rows = [*missing, *sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc)]\n",
        "tests/commands/test_looking.py::test_rows_without_a_value_come_last_and_equal_nothing",
    ),
    (
        "minitune/commands/again.py",
        "    check_trusted(path)\n    run, _ = read_standing(path, unpickle=True)\n",
        "    run, _ = read_standing(path, unpickle=True)\n",
        "tests/commands/test_again.py::test_a_run_that_others_can_write_to_is_not_loaded",
    ),
    (
        "minitune/commands/again.py",
        '            start = shutil.copytree(self.origin.path, os.path.join(directory, "start"), dirs_exist_ok=True)',
        "            start = self.origin.path",
        "tests/commands/test_again.py::test_a_trial_that_spoils_its_checkpoint_spoils_a_copy",
    ),
    (
        "minitune/commands/again.py",
        "    if any(trial.experiment_number for trial in run.trials):",
        "    if False:",
        "tests/commands/test_again.py::test_a_run_of_several_experiments_goes_on_by_its_script_only",
    ),
    (
        "minitune/commands/selecting.py",
        "is_number = wanted.isdigit() and len(wanted) < 5  # an end of an id has five digits",
        "is_number = wanted.isdigit()",
        "tests/commands/test_looking.py::test_a_beginning_of_an_id_may_look_like_a_number",
    ),
    (
        "minitune/record/standing.py",
        "        return self.name in (INTERRUPTED_RUN, FAILED, KILLED)",
        "        return self.name in (INTERRUPTED_RUN, KILLED)",
        "tests/commands/test_doctor.py::test_a_run_that_has_failed_or_was_interrupted_can_go_on",
    ),
    (
        "minitune/commands/look.py",
        "    if look_up(trial.last_result, metric) == value:\n"
        "        return trial.last_result.get(TRAINING_ITERATION)\n",
        "    return trial.last_result.get(TRAINING_ITERATION)\n",
        "tests/commands/test_looking.py::test_the_best_is_that_of_the_grid_with_its_step_and_checkpoint",
    ),
    # -- examples ------------------------------------------------------------------------------------------------------
    (
        "minitune/examples/quickstart.py",
        "        network, epoch = load(checkpoint.path)\n",
        "        network, _ = load(checkpoint.path)\n",
        "tests/test_demo.py::test_a_training_that_was_interrupted_goes_on_as_if_it_had_not_been",
    ),
    (
        "minitune/examples/resume.py",
        '        loss, epoch = state["loss"], state["epoch"]\n',
        '        loss = state["loss"]\n',
        "tests/test_examples.py::test_a_killed_tuning_goes_on_at_its_checkpoints",
    ),
    # -- execution -----------------------------------------------------------------------------------------------------
    (
        "minitune/record/checkpoint_manager.py",
        "        if entry.trial.checkpoints[-1] is entry.kept:\n            return True\n",
        "",
        "tests/storage/test_checkpoint_manager.py::test_the_budget_spares_the_one_that_is_the_newest_again",
    ),
    (
        "minitune/record/checkpoint_manager.py",
        "            if entry is spared or entry.key in self._pins or is_settled:\n",
        "            if entry is spared or is_settled:\n",
        "tests/storage/test_checkpoint_manager.py::test_a_pinned_checkpoint_stays_until_it_is_free",
    ),
    (
        "minitune/record/checkpoint_manager.py",
        "            if entry is spared or entry.key in self._pins or is_settled:",
        "            if entry is spared or entry.key in self._pins:",
        "tests/storage/test_checkpoint_manager.py::test_the_newest_settled_checkpoint_stays_until_a_newer"
        "_one_is_settled",
    ),
    (
        "minitune/record/checkpoint_manager.py",
        "        if trial.status == TERMINATED:  # an ERROR may be resumed, from its newest checkpoint\n",
        "        if trial.is_finished():\n",
        "tests/storage/test_checkpoint_manager.py::test_the_budget_leaves_what_a_retry_or_a_resume_needs",
    ),
    (
        "minitune/record/story.py",
        '        return {"rung": rung, "rank": 1 + len(scores) - bisect_right(scores, score), "of": len(scores)}',
        '        return {"rung": rung, "rank": len(scores) - bisect_right(scores, score), "of": len(scores)}',
        "tests/simulation/test_replay_and_explain.py::test_a_promotion_is_explained_by_the_rank_that_led_to_it",
    ),
    (
        "minitune/record/story.py",
        "        if history.is_open and history.decisions[-1].action == PAUSE:  # this pause was made for "
        "the exploit\n"
        "            last = history.decisions.pop()",
        "        if history.is_open and history.decisions[-1].action == PAUSE:  # this pause was made for "
        "the exploit\n"
        "            last = history.decisions[-1]",
        "tests/simulation/test_replay_and_explain.py::test_population_based_training_tells_the_values_tha"
        "t_were_compared",
    ),
    (
        "minitune/execution/devices.py",
        '        depth = 0 if ".." in parts else len(parts)',
        "        depth = len(parts)",
        "tests/resources/test_devices.py::test_cpus_are_bounded_by_the_quota",
    ),
    (
        "minitune/record/disk.py",
        " or (not self.has_gone and self._held_bytes < RESERVE_BYTES // 2)",
        "",
        "tests/storage/test_disk.py::test_a_run_ends_while_half_of_the_space_is_left_for_its_last_records",
    ),
    (
        "minitune/execution/failure.py",
        "(allowed < 0 or trial.num_failures <= allowed)",
        "(allowed < 0 or trial.num_failures < allowed)",
        "tests/controller/test_driver_failures.py::test_a_retry_goes_on_from_the_latest_checkpoint",
    ),
    (
        "minitune/execution/failure.py",
        "        if not reported:\n            return None\n",
        "",
        "tests/controller/test_driver_stopping.py::test_a_result_that_holds_nothing_of_the_users_needs_no_metric",
    ),
    (
        "minitune/execution/ledger.py",
        "        host = min(fitting, key=left.__getitem__)",
        "        host = max(fitting, key=left.__getitem__)",
        "tests/resources/test_ledger.py::test_fractions_are_packed_and_whole_devices_stay_free",
    ),
    (
        "minitune/execution/hooks.py",
        "        if decision == STOP:\n            result[DONE] = True\n        elif self._tells_searcher:\n",
        "        if decision == STOP:\n            result[DONE] = True\n        if self._tells_searcher:\n",
        "tests/controller/test_driver_order.py::test_a_stop_by_the_scheduler_is_not_shown_to_the_searcher",
    ),
    (
        "minitune/execution/hooks.py",
        "            if self._tells_searcher and not result.get(DONE):\n",
        "            if self._tells_searcher:\n",
        "tests/controller/test_driver_resume.py::test_a_fresh_searcher_hears_no_result_upon_which_the_sch"
        "eduler_has_stopped_a_trial",
    ),
    (
        "minitune/execution/hooks.py",
        "                if after_error or first is not None:\n"
        '                    logger.warning("%s", error)\n'
        "                else:\n"
        "                    first = error\n",
        "                raise\n",
        "tests/controller/test_driver_plugin_errors.py::test_all_callbacks_hear_of_the_end_even_if_one_of_them_raises",
    ),
    (
        "minitune/record/disk.py",
        "            if self._settling is not None and self._settling[0] == key:\n"
        "                found.append(self._settling[1])\n",
        "",
        "tests/storage/test_housekeeper.py::test_a_checkpoint_that_is_just_being_settled_has_to_stay",
    ),
    (
        "minitune/execution/inline.py",
        "            heapq.heapify(answers)\n            self._ends = answers",
        "            heapq.heapify(answers)",
        "tests/execution/test_inline.py::test_an_answer_that_lies_ready_does_not_follow_a_stop",
    ),
    (
        "minitune/_driver.py",
        "            if number is None or signal.getsignal(number) in (signal.SIG_IGN, None):\n",
        "            if number is None:\n",
        "tests/runs/test_interrupts.py::test_a_signal_that_is_ignored_stays_so",
    ),
    (
        "minitune/record/journal.py",
        "                if self._torn_bytes:\n                    self._cut_back(descriptor)\n                written",
        "                written",
        "tests/storage/test_journal.py::test_a_short_write_is_cut_back_and_tried_again",
    ),
    (
        "minitune/record/journal.py",
        "            os.lseek(writer, self._synced_bytes, os.SEEK_SET)",
        "            os.lseek(writer, 0, os.SEEK_END)",
        "tests/storage/test_journal.py::test_after_one_failed_sync_what_was_not_synced_is_written_again",
    ),
    (
        "minitune/record/codec.py",
        '    if line[:8] != b"%08x" % zlib.crc32(body):\n',
        "    if int(line[:8], 16) != zlib.crc32(body):\n",
        "tests/storage/test_journal_codec.py::test_every_single_bit_flip_is_noticed",
    ),
    (
        "minitune/execution/launcher.py",
        "        self._state.deadlines.begin(trial.actor_id, TRIAL, now_s)\n",
        "",
        "tests/faults/test_faults_timeouts.py::test_limits_hold_on_a_virtual_clock",
    ),
    (
        "minitune/execution/launcher.py",
        'f"trial/{trial.number}"',
        'f"trial/{trial.number // 2}"',
        "tests/runs/test_seeds_on_record.py::test_each_trial_has_a_seed_of_its_own",
    ),
    (
        "minitune/execution/launcher.py",
        "                len(state.live) + len(state.leaving) < self._max_running",
        "                len(state.live) < self._max_running",
        "tests/controller/test_driver_limits.py::test_a_worker_is_handed_on",
    ),
    (
        "minitune/execution/launcher.py",
        "                if not self._executor.can_start(self._state.trials[-1].resources):\n"
        "                    return False\n",
        "                self._executor.can_start(self._state.trials[-1].resources)\n",
        "tests/controller/test_driver_searchers.py::test_a_searcher_is_asked_when_its_suggestion_can_star"
        "t_and_not_before",
    ),
    (
        "minitune/execution/ledger.py",
        "        self._move(self._total, self._gpu_total, holding.demand, holding.placement, -1)\n"
        "        self._demands.clear()\n",
        "        self._move(self._total, self._gpu_total, holding.demand, holding.placement, -1)\n",
        "tests/resources/test_ledger.py::test_written_off_resources_are_gone_for_good",
    ),
    (
        "minitune/execution/ledger.py",
        "    count = math.ceil(exact - 1e-6)  # 0.1 * 3 is a little more than 0.3\n",
        "    count = math.ceil(exact)\n",
        "tests/resources/test_ledger.py::test_sums_of_fractions_are_what_they_are_on_paper",
    ),
    (
        "minitune/execution/local.py",
        "        preload = actor.request.required_resources.get(GPU, 0) == 0 and _has_one_thread(place.env)",
        "        preload = _has_one_thread(place.env)",
        "tests/runs/test_resources.py::test_devices_are_chosen_before_imports_and_never_held_twice",
    ),
    (
        "minitune/execution/logical_order.py",
        "        actor.due = (self._time + after, next(self._numbers))",
        "        actor.due = (self._time, next(self._numbers))",
        "tests/differential/test_deterministic.py::test_one_table_on_any_machine_that_of_the_virtual_one",
    ),
    (
        "minitune/record/story.py",
        "            if until is None or offset < until:\n",
        "            if True:\n",
        "tests/resume/test_plugin_states.py::test_what_has_come_after_the_last_state_is_told_to_the_searcher",
    ),
    (
        "minitune/record/codec.py",
        "        if not is_whole:\n            raise TuneError(",
        "        if False:\n            raise TuneError(",
        "tests/storage/test_journal_codec.py::test_a_damaged_or_missing_object_file_has_a_clear_error",
    ),
    (
        "minitune/record/plugin_states.py",
        '            if not file.readline().endswith(b"\\n"):\n',
        "            if not file.readline():\n",
        "tests/faults/test_faults_files_plain.py::test_what_was_damaged_is_rebuilt_byte_by_byte",
    ),
    (
        "minitune/record/plugin_states.py",
        "os.path.isfile(path) and _sha256(path) == digest",
        "os.path.isfile(path)",
        "tests/resume/test_plugin_states.py::test_a_damaged_state_is_not_used",
    ),
    (
        "minitune/record/plugin_states.py",
        "                        os.chmod(path, files.BLOB_MODE)  # the plug-in may have made it readable for all\n",
        "                        pass\n",
        "tests/faults/test_faults_security.py::test_nothing_listens_the_umask_holds_and_no_secret_is_written_down",
    ),
    (
        "minitune/record/plugin_states.py",
        "            if state is not None and name == type(callback).__qualname__:\n",
        "            if state is not None:\n",
        "tests/resume/test_plugin_states.py::test_a_callback_of_another_class_does_not_get_the_state_of_t"
        "he_one_before_it",
    ),
    (
        "minitune/record/story.py",
        "            trial.num_failures += not cause.startswith(LOST)\n",
        "            trial.num_failures += 1\n",
        "tests/resume/test_resume_order.py::test_a_lost_worker_is_no_failure_after_a_resume_either",
    ),
    (
        "minitune/record/recorder.py",
        "            self.write()\n"
        "            if not self.in_memory:\n                self._checkpoints.remove(item)\n",
        "            self._checkpoints.remove(item)\n            self.write()\n",
        "tests/controller/test_driver_disk.py::test_a_checkpoint_leaves_the_record_before_it_leaves_the_disk",
    ),
    (
        "minitune/record/recorder.py",
        "            if self._is_strict:\n                self._settle(trial, kept.record)\n",
        "",
        "tests/storage/test_syncs.py::test_a_strict_checkpoint_is_on_the_disk_before_the_record_that_names_it",
    ),
    (
        "minitune/record/recorder.py",
        "        if trial.attempt > 1 and trial.error is None and not self.in_memory:\n",
        "        if False:\n",
        "tests/controller/test_driver_disk.py::test_errors_are_appended_and_the_pickle_goes_with_the_last_failure",
    ),
    (
        "minitune/record/replay.py",
        "            has_failed = not cause.startswith(LOST)\n",
        "            has_failed = True\n",
        "tests/resume/test_resume_order.py::test_a_lost_worker_is_no_failure_after_a_resume_either",
    ),
    (
        "minitune/record/replay.py",
        "            for trial in [each for each in self.state.queue if each.trial_id not in self._cut_off]:",
        "            for trial in ():",
        "tests/resume/test_resume_order.py::test_trials_that_had_a_worker_go_on_before_those_that_waited",
    ),
    (
        "minitune/record/story.py",
        'if record["decision"] == STOP and record["metrics"].get(DONE):',
        'if record["decision"] == STOP:',
        "tests/controller/test_driver_resume.py::test_paused_trials_are_taken_up_again",
    ),
    (
        "minitune/record/lock.py",
        "started is not None and not abs(started - self.start_time) > _CLOCK_STEP_S",
        "started is not None",
        "tests/storage/test_run_lock.py::test_a_process_that_has_got_the_number_of_a_holder_is_not_taken_for_it",
    ),
    (
        "minitune/record/lock.py",
        "        return found in (None, holder) or not found.is_alive()\n",
        "        return True\n",
        "tests/storage/test_run_lock.py::test_a_second_process_is_refused_and_told_who_holds_it",
    ),
    (
        "minitune/execution/failure.py",
        "        if now_s >= self._not_before_s and begun_s",
        "        if begun_s",
        "tests/controller/test_setbacks.py::test_pauses_grow_with_losses_in_a_row_and_begin_anew_with_a_start",
    ),
    (
        "minitune/execution/simulated.py",
        "_Saved(actor.position, copy.deepcopy(actor.state))",
        "_Saved(actor.position, actor.state)",
        "tests/simulation/test_simulation.py::test_a_saved_state_stays_what_it_was_although_the_trial_goes_on_with_it",
    ),
    (
        "minitune/record/plugin_states.py",
        "while len(kept) > STATES_KEPT:",
        "while len(kept) > STATES_KEPT + 1:",
        "tests/resume/test_plugin_states.py::test_only_two_states_of_a_component_are_kept",
    ),
    (
        "minitune/record/layout.py",
        '.decode("utf-8", "replace").rpartition("Failure # ")[2]',
        '.decode("utf-8", "replace").partition("Failure # ")[2]',
        "tests/storage/test_storage.py::test_failures_are_appended_and_the_last_exception_is_kept",
    ),
    (
        "minitune/record/layout.py",
        "    real, real_top = os.path.realpath(path), os.path.realpath(top)",
        "    real, real_top = os.path.abspath(path), os.path.abspath(top)",
        "tests/storage/test_storage.py::test_nothing_is_cleared_outside_or_behind_a_link",
    ),
    (
        "minitune/execution/actions.py",
        "        self._state.let_go(live)\n        if self._deadlines.are_set:\n"
        "            self._deadlines.forget(live.actor_id)\n",
        "        self._state.let_go(live)\n",
        "tests/faults/test_faults_timeouts.py::test_limits_hold_on_a_virtual_clock",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            if count >= _TOGETHER or time.monotonic() >= until_s:\n",
        "            if count >= _TOGETHER:\n",
        "tests/controller/test_driver_disk.py::test_a_slow_callback_holds_up_no_other_trial",
    ),
    (
        "minitune/execution/actions.py",
        "        if self._recorder.unwritten:\n            self._recorder.write()\n        if self._unsent:\n",
        "        if self._unsent:\n",
        "tests/controller/test_driver_disk.py::test_a_worker_is_asked_for_nothing_before_its_reason_is_on_record",
    ),
    (
        "minitune/execution/actions.py",
        "    return decision if mine >= others else other",
        "    return decision if mine > others else other",
        "tests/controller/test_driver_pausing.py::test_of_two_pauses_the_one_that_does_more_counts",
    ),
    (
        "minitune/execution/actions.py",
        "(refused and len(trial.checkpoints) > 1)",
        "refused",
        "tests/faults/test_faults_workers.py::test_the_only_checkpoint_is_not_given_up_for_being_refused",
    ),
    (
        "minitune/execution/actions.py",
        "        if self._state.interrupted and not live.ends_by_itself:\n",
        "        if self._state.interrupted:\n",
        "tests/controller/test_driver_resume.py::test_a_trial_that_ends_by_itself_during_an_interrupt_has_ended",
    ),
    (
        "minitune/execution/state.py",
        "        firsts.sort()  # by arrival numbers, which are distinct\n",
        "",
        "tests/controller/test_driver_lifecycle.py::test_the_first_of_each_request_come_in_order_of_arrival",
    ),
    (
        "minitune/record/lock.py",
        "        for name in files.names(objects):\n            _check_owner(os.path.join(objects, name))\n",
        "",
        "tests/storage/test_storage.py::test_what_others_can_write_is_not_trusted_unless_the_user_says_so",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        self._deadlines.end(live.actor_id, REPORT)\n        metrics, checkpoint, is_done",
        "        metrics, checkpoint, is_done",
        "tests/faults/test_faults_timeouts.py::test_a_save_is_no_report_that_is_late",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            return\n        self._apply(0)\n",
        "            return\n",
        "tests/faults/test_faults_timeouts.py::test_a_report_that_the_driver_had_no_time_to_read_is_not_late",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            return False  # the exploit replaces its state",
        "            pass",
        "tests/controller/test_populations.py::test_a_replay_trains_under_the_same_schedule",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        self._failed_restores.pop(live.trial.trial_id, None)\n",
        "",
        "tests/entry/test_run.py::test_only_failed_restores_in_a_row_are_counted_together",
    ),
    (
        "minitune/execution/tune_controller.py",
        "self._end_deadline_s = self._now() + self._settings.grace_s",
        "self._end_deadline_s = self._now()",
        "tests/controller/test_driver_resume.py::test_classes_go_on_from_their_checkpoints",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        if self._saves_at_end(trial) and not is_saved:\n",
        "        if not is_saved:\n",
        "tests/resume/test_cut_journals.py::test_a_trial_whose_last_result_is_on_record_does_not_run_again",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            self._recorder.worker_is_gone(trial)\n",
        "",
        "tests/runs/test_deaths.py::test_of_a_checkpoint_whose_report_was_never_sent_nothing_is_left",
    ),
    (
        "minitune/execution/ledger.py",
        "            if is_earlier and not has_room(group.request):\n",
        "            if is_earlier:\n",
        "tests/resources/test_fairness.py::test_equal_requests_do_not_overtake_each_other",
    ),
    (
        "minitune/execution/report_path.py",
        ' or "\\\\ud" in text',
        "",
        "tests/controller/test_report_path.py::test_the_files_are_the_same_for_each_rare_value_among_plain_ones",
    ),
    (
        "minitune/execution/report_path.py",
        " or decision.facts",
        "",
        "tests/controller/test_report_path.py::test_the_files_are_the_same_with_plugins_of_all_kinds",
    ),
    (
        "minitune/execution/report_path.py",
        "len(text) > _MAX_TEXT or ",
        "",
        "tests/controller/test_report_path.py::test_the_files_are_the_same_for_each_rare_value_among_plain_ones",
    ),
    (
        "minitune/execution/report_path.py",
        " or trial.experiment_tag != self._tag",
        "",
        "tests/controller/test_report_path.py::test_the_files_are_the_same_with_plugins_of_all_kinds",
    ),
    (
        "minitune/base/files.py",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, within, directory)",
        "os.O_WRONLY | os.O_CREAT, mode, within, directory)",
        "tests/plugins/test_loggers.py::test_parameter_files_that_a_kill_has_torn_are_made_again_at_the_next_start",
    ),
    # -- experiment ----------------------------------------------------------------------------------------------------
    (
        "minitune/experiment/trial.py",
        "                metrics[key] = metrics.pop(key)\n",
        "                metrics[key] = metrics[key]\n",
        "tests/controller/test_driver_disk.py::test_the_automatic_keys_come_in_their_order",
    ),
    (
        "minitune/experiment/trial.py",
        '(value > best[0] if mode == "max" else value < best[0])',
        '(value >= best[0] if mode == "max" else value <= best[0])',
        "tests/results/test_results.py::test_failed_trials_and_earlier_values_are_pointed_to",
    ),
    (
        "minitune/experiment/trial.py",
        '    statistic = mode if scope == "all" else scope\n',
        '    statistic = "max" if scope == "all" else scope\n',
        "tests/controller/test_driver_results.py::test_the_best_result",
    ),
    (
        "minitune/experiment/lifecycle.py",
        "    Phase.TERMINATED: {Step.REVIVE: Phase.QUEUED},\n    Phase.ERROR: {Step.REVIVE: Phase.QUEUED},\n",
        "    Phase.TERMINATED: {},\n    Phase.ERROR: {Step.REVIVE: Phase.QUEUED},\n",
        "tests/resume/test_resume_choices.py::test_finished_trials_can_go_on",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "            if value > known[0] or known[0] != known[0]:\n",
        "            if value > known[0]:\n",
        "tests/results/test_metric_analysis.py::test_nan_is_neither_maximum_nor_minimum",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "        known[4] = [*known[4], *column][-_WINDOW:]\n",
        "        known[4] = list(column[-_WINDOW:])\n",
        "tests/results/test_metric_analysis.py::test_statistics_are_those_of_all_values",
    ),
    (
        "minitune/space/tree.py",
        '        return f"{float(value):.4g}"',
        '        return f"{float(value):.3g}"',
        "tests/search/test_variants.py::test_tags_show_values_as_people_write_them",
    ),
    (
        "minitune/experiment/trial.py",
        "            self.analysis = to.analysis.copy()\n        else:",
        "            self.analysis = to.analysis\n        else:",
        "tests/controller/test_driver_failures.py::test_statistics_count_each_report_of_the_live_view_once",
    ),
    # -- legacy --------------------------------------------------------------------------------------------------------
    (
        "minitune/legacy/trainables.py",
        '            given["checkpoint_dir"] = start.path if start is not None else None',
        '            given["checkpoint_dir"] = None',
        "tests/legacy/test_old_forms.py::test_a_function_goes_on_from_checkpoint_dir",
    ),
    (
        "minitune/legacy/trainables.py",
        "    if not (kind.step is base.step or getattr(kind.step, _IS_CALLER, False)):\n        return\n",
        "",
        "tests/legacy/test_old_forms.py::test_private_helpers_of_a_modern_class_are_left_alone",
    ),
    (
        "minitune/trainable/session.py",
        "        self.hand_over_made()\n        number = self.take_checkpoint_number()\n        directory",
        "        number = self.take_checkpoint_number()\n        directory",
        "tests/legacy/test_old_forms.py::test_a_checkpoint_that_no_report_follows_is_recorded_by_itself",
    ),
    (
        "minitune/legacy/loggers.py",
        "            logger.close()",
        "            pass",
        "tests/legacy/test_old_forms.py::test_loggers_of_old_get_each_result",
    ),
    (
        "minitune/legacy/keywords.py",
        "            found[new] = convert(value)",
        "            pass",
        "tests/legacy/test_old_forms.py::test_keywords_of_old_are_translated_or_named",
    ),
    (
        "minitune/commands/port.py",
        "        if name is None or name in parameters:",
        "        if True:",
        "tests/commands/test_port.py::test_what_is_missing_is_listed_with_its_line",
    ),
    (
        "minitune/_alias.py",
        '        path = path.rpartition(".")[0]\n    return None',
        '        path = ""\n    return None',
        "tests/surface/test_paths.py::test_a_name_that_a_module_lacks_says_what_to_do",
    ),
    # -- integration ---------------------------------------------------------------------------------------------------
    (
        "minitune/integration/_metrics.py",
        "        return self.frequency > 0 and (round_number + 1) % self.frequency == 0",
        "        return self.frequency > 0 and round_number % self.frequency == 0",
        "tests/integration/test_boosting.py::test_every_so_many_rounds_the_model_is_saved",
    ),
    (
        "minitune/integration/_metrics.py",
        "    missing = [name for name in names.values() if name not in logged]\n",
        "    missing = [name for name in names if name not in logged]\n",
        "tests/integration/test_boosting.py::test_metrics_are_reported_under_the_names_that_are_wanted",
    ),
    (
        "minitune/integration/pytorch_lightning.py",
        "        if not trainer.sanity_checking:\n            self.handle(trainer)",
        "        self.handle(trainer)",
        "tests/integration/test_lightning_callback.py::test_validations_are_reported_and_saved_but_not_th"
        "e_check_before",
    ),
    # -- logger --------------------------------------------------------------------------------------------------------
    (
        "minitune/base/files.py",
        "        if whole < size:\n            os.ftruncate(descriptor, whole)\n",
        "",
        "tests/plugins/test_loggers.py::test_a_torn_last_line_is_cut_off_at_the_next_start",
    ),
    (
        "minitune/base/files.py",
        "            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)\n            raise\n",
        "            raise\n",
        "tests/plugins/test_loggers.py::test_a_line_for_which_there_is_no_space_is_not_there_in_part",
    ),
    (
        "minitune/logger/csv.py",
        "        return self.rows >= 2 * self.rewritten_at or len(self.late) >= _MAX_LATE_ROWS",
        "        return True",
        "tests/plugins/test_loggers.py::test_new_columns_cost_few_rewritings",
    ),
    (
        "minitune/logger/csv.py",
        "        if table is not None and table.late:\n"
        "            try:\n"
        "                self._rewrite(key, table)\n"
        "            except OSError as error:\n"
        "                self._lapse(key, table.path, error)\n"
        "        self._files.close(key)\n",
        "        self._files.close(key)\n",
        "tests/plugins/test_loggers.py::test_a_missing_value_is_empty_and_a_new_key_gets_its_column",
    ),
    (
        "minitune/logger/json.py",
        "pickle_path, data, files.BLOB_MODE)",
        "pickle_path, data)",
        "tests/plugins/test_loggers.py::test_params_are_written_at_each_start",
    ),
    (
        "minitune/base/json_text.py",
        "    if depth >= MAX_DEPTH or id(value) in parents:\n",
        "    if depth >= MAX_DEPTH:\n",
        "tests/plugins/test_loggers.py::test_json_holds_whatever_is_reported",
    ),
    # -- schedulers ----------------------------------------------------------------------------------------------------
    (
        "minitune/schedulers/population.py",
        "    new = min(max(place + step, 0), len(values) - 1)\n",
        "    new = (place + step) % len(values)\n",
        "tests/plugins/test_explore.py::test_where_a_value_can_go",
    ),
    (
        "minitune/schedulers/population.py",
        "        ends = self.size_of_ends()\n"
        "        return ends > 0 and (self.rank(member) > len(self) - ends or member.is_worst)\n",
        "        ends = self.size_of_ends()\n        return ends > 0 and self.rank(member) > len(self) - ends\n",
        "tests/plugins/test_pbt.py::test_with_synch_all_members_without_a_number_are_replaced",
    ),
    (
        "minitune/schedulers/population.py",
        "min(math.ceil(len(self) * self.fraction), len(self) // 2)",
        "math.ceil(len(self) * self.fraction)",
        "tests/plugins/test_pbt.py::test_members_that_have_ended_or_failed_leave_the_population",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "        if index <= standing.level:\n            return None\n",
        "        if index < standing.level:\n            return None\n",
        "tests/plugins/test_asha.py::test_between_levels_nothing_is_compared",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "len(level) // self._eta if self._promotes else -(-len(level) // self._eta)",
        "len(level) // self._eta",
        "tests/plugins/test_asha.py::test_the_best_quarter_of_a_level_goes_on_the_newcomer_included",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        '        self._rng.setstate(state["rng"])\n',
        "",
        "tests/plugins/test_saved_states.py::test_a_scheduler_with_a_saved_state_goes_on_like_the_first",
    ),
    (
        "minitune/schedulers/hyperband.py",
        "        if member.entry is not None:\n"
        '            return Decision(decision.PAUSE, "paused again at the level where it waits for the others")\n',
        "",
        "tests/plugins/test_hyperband.py::test_a_trial_that_is_started_again_while_it_waits_goes_no_further",
    ),
    (
        "minitune/schedulers/hyperband.py",
        "            trial_id: bracket for bracket in self._brackets for trial_id in (*bracket.members, "
        "*bracket.leaving)\n",
        "            trial_id: bracket for bracket in self._brackets for trial_id in bracket.members\n",
        "tests/plugins/test_hyperband.py::test_a_driver_that_died_before_it_could_stop_those_who_were_dro"
        "pped_stops_them_later",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        "        if curve.best >= median - _ROUNDING * max(1.0, abs(median)):\n",
        "        if curve.best > median:\n",
        "tests/plugins/test_median_stopping_rule.py::test_equal_curves_do_not_end_each_other_for_a_rounding",
    ),
    (
        "minitune/schedulers/pb2.py",
        "            del self._gains[:-_WINDOW]\n",
        "",
        "tests/plugins/test_pb2.py::test_the_model_learns_from_the_latest_gains_only",
    ),
    (
        "minitune/schedulers/pbt.py",
        "other is not member and not other.is_worst)",
        "other is not member)",
        "tests/plugins/test_pbt.py::test_no_one_is_copied_where_no_one_has_a_number",
    ),
    (
        "minitune/schedulers/pbt.py",
        "            trial = self._find(context, trial_id)\n            if trial is None or trial.is_finished():\n",
        "            trial = self._trials.get(trial_id)\n            if trial is None or trial.is_finished():\n",
        "tests/plugins/test_saved_states.py::test_a_scheduler_with_a_saved_state_goes_on_like_the_first",
    ),
    (
        "minitune/schedulers/pbt.py",
        "        if at < self._burn_in:\n            return CONTINUE\n",
        "",
        "tests/plugins/test_pbt.py::test_a_turn_comes_after_each_interval_and_not_before_the_burn_in",
    ),
    (
        "minitune/schedulers/pbt.py",
        'getattr(context, "is_replaying", False)',
        "False",
        "tests/plugins/test_pbt.py::test_nothing_is_written_if_the_user_does_not_want_it_or_a_past_run_is_told_again",
    ),
    (
        "minitune/schedulers/pbt.py",
        "                config = self._custom_explore_fn(config)\n",
        "                pass\n",
        "tests/plugins/test_pbt.py::test_mutations_are_not_needed_where_the_user_explores",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "        return min(share + (place < left), self._cap())",
        "        return min(share + (place <= left), self._cap())",
        "tests/plugins/test_resource_changing.py::test_what_is_free_is_dealt_out_in_equal_parts",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "            free_amounts[name] = pool[name] - sum(used)",
        "            free_amounts[name] = pool[name]",
        "tests/plugins/test_resource_changing.py::test_a_trial_shrinks_when_others_join_but_not_below_wha"
        "t_it_came_with",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "            self._allocate.objective(self)\n",
        "            pass\n",
        "tests/plugins/test_resource_changing.py::test_the_metric_may_be_the_runs_but_there_must_be_one",
    ),
    # -- search --------------------------------------------------------------------------------------------------------
    (
        "minitune/search/parzen.py",
        "                key = (-observation.step, *key)",
        "                key = (observation.step, *key)",
        "tests/search/test_tpe.py::test_trials_of_different_lengths_compare_by_the_policy",
    ),
    (
        "minitune/search/basic_variant.py",
        "0 < self.max_concurrent <= len(self._live) - len(self._paused)",
        "0 < self.max_concurrent <= len(self._live)",
        "tests/search/test_basic_variant.py::test_a_limit_holds_trials_back_and_paused_ones_do_not_count",
    ),
    (
        "minitune/search/basic_variant.py",
        "        for number, (table, _) in enumerate(self._tables):\n"
        '            table.reseed(f"{self._seed}/{number}")\n',
        '        for table, _ in self._tables:\n            table.reseed(f"{self._seed}/0")\n',
        "tests/search/test_basic_variant.py::test_of_several_experiments_each_draws_for_itself_whenever_the_seed_comes",
    ),
    (
        "minitune/search/wrappers.py",
        "        if len(self._running | self._members.keys()) >= self.max_concurrent:\n",
        "        if len(self._running) >= self.max_concurrent:\n",
        "tests/search/test_searcher_wrappers.py::test_a_batch_is_told_at_once_in_the_order_of_suggestion",
    ),
    (
        "minitune/search/wrappers.py",
        "        self._is_fed = False\n        self._close_batch()\n        self.searcher.on_search_end()",
        "        self.searcher.on_search_end()",
        "tests/search/test_searcher_wrappers.py::test_a_batch",
    ),
    (
        "minitune/space/parameters.py",
        "        return str(int(value)) if value.is_integer() else repr(float(value))",
        "        return repr(float(value))",
        "tests/search/test_filters.py::test_when_configurations_are_equal",
    ),
    (
        "minitune/search/filters.py",
        "            if verdict is not Verdict.ADMITTED and name is not None:\n"
        "                self.searcher.on_suggestion_refused(name)\n",
        "            pass\n",
        "tests/search/test_filters.py::test_a_searcher_that_repeats_itself_is_helped_out",
    ),
    (
        "minitune/search/wrappers.py",
        "        config: dict[str, Any] = copy_tree(group.config)\n",
        "        config: dict[str, Any] = group.config\n",
        "tests/search/test_searcher_wrappers.py::test_trials_of_a_group_share_nothing",
    ),
    (
        "minitune/search/auto.py",
        'policy == "last" and ',
        "",
        "tests/search/test_auto.py::test_where_a_scheduler_stops_trials_early_the_estimators_search_alone",
    ),
    (
        "minitune/search/auto.py",
        "suggest(self._region.size)",
        "suggest()",
        "tests/search/test_auto.py::test_in_a_valley_the_region_leads_to_better_points",
    ),
    (
        "minitune/search/auto.py",
        "        yield process.suggest()\n",
        "",
        "tests/search/test_auto.py::test_in_a_finite_space_the_process_repeats_nothing",
    ),
    (
        "minitune/search/auto.py",
        "Region(**region)",
        "None",
        "tests/search/test_auto.py::test_a_saved_searcher_goes_on_as_it_would_have",
    ),
    (
        "minitune/search/gaussian_process.py",
        "self.size / 2 if self.size >= 2 * _LEAST_SIZE else 1.0",
        "max(_LEAST_SIZE, self.size / 2)",
        "tests/search/test_auto.py::test_a_region_grows_with_success_and_shrinks_without_it",
    ),
    (
        "minitune/search/gaussian_process.py",
        "max(size, 2 * axis.width)",
        "size",
        "tests/search/test_auto.py::test_the_smallest_region_reaches_the_next_integer",
    ),
    (
        "minitune/search/gaussian_process.py",
        "([*inputs, *waiting], ",
        "(inputs, ",
        "tests/search/test_auto.py::test_suggestions_that_are_pending_keep_apart",
    ),
    (
        "minitune/search/search_algorithm.py",
        "        if trial_id in self._live:\n"
        "            self._live.discard(trial_id)\n"
        "            self.searcher.on_trial_complete(trial_id, result=result, error=error)\n",
        "        self._live.discard(trial_id)\n"
        "        self.searcher.on_trial_complete(trial_id, result=result, error=error)\n",
        "tests/search/test_search_generator.py::test_every_suggestion_is_completed_exactly_once",
    ),
    (
        "minitune/search/search_algorithm.py",
        "            self.on_trial_complete(trial_id, error=True)\n            raise\n",
        "            raise\n",
        "tests/search/test_search_generator.py::test_a_suggestion_that_makes_no_trial_is_completed_as_failed",
    ),
    (
        "minitune/search/study.py",
        "        return max(self._scored(), key=lambda found: found[0], default=([], None))[1]",
        "        return min(self._scored(), key=lambda found: found[0], default=([], None))[1]",
        "tests/search/test_study.py::test_the_example_in_its_docstring_is_true",
    ),
    (
        "minitune/search/tpe.py",
        "        if result is None and not error and not observation.step:\n",
        "        if result is None and not error:\n",
        "tests/search/test_tpe.py::test_a_trial_that_ends_without_a_result_counts_with_its_last_one",
    ),
    (
        "minitune/search/tpe.py",
        "        self.on_trial_complete(trial_id)  # an id that is used again belongs to a new trial\n",
        "",
        "tests/search/test_tpe.py::test_a_trial_whose_name_is_used_again_counts_with_its_last_value",
    ),
    (
        "minitune/search/tpe.py",
        '        self._points_given, self._has_budgets = state["points_given"], state["has_budgets"]\n',
        '        self._has_budgets = state["has_budgets"]\n',
        "tests/search/test_tpe.py::test_a_searcher_that_goes_on_gives_each_point_once",
    ),
    (
        "minitune/space/variants.py",
        "            if self._constant_grid_search:\n                plan",
        "            if False:\n                plan",
        "tests/search/test_variants.py::test_random_parameters_stay_for_a_whole_sample_with_constant_grid_search",
    ),
    (
        "minitune/search/evolution.py",
        "math.inf if value != value else value, point",
        "value, point",
        "tests/search/test_auto.py::test_failures_are_the_worst_draws_of_an_evolution",
    ),
    (
        "minitune/search/evolution.py",
        "            if ranked[0][0] < math.inf:\n",
        "            if ranked:\n",
        "tests/search/test_auto.py::test_a_generation_of_failures_moves_no_evolution",
    ),
    (
        "minitune/search/evolution.py",
        "                self._begin(2 * self._population)  # more draws find other optima",
        "                pass",
        "tests/search/test_auto.py::test_an_evolution_that_has_come_to_an_end_looks_elsewhere",
    ),
    (
        "minitune/search/evolution.py",
        "            while not axis.low <= place <= axis.high:\n                place = rng.gauss(mean, deviation)\n",
        "",
        "tests/search/test_auto.py::test_an_evolution_goes_to_the_border_but_does_not_pile_up_there",
    ),
    (
        "minitune/search/evolution.py",
        "max(self._step * math.sqrt(variance), _LEAST_CELLS * axis.width)",
        "self._step * math.sqrt(variance)",
        "tests/search/test_auto.py::test_an_integer_that_has_come_to_rest_is_moved_at_times",
    ),
    (
        "minitune/search/evolution.py",
        "shrink = min(1.0, longest / max(math.hypot(*step), 1e-12))",
        "shrink = 1.0",
        "tests/search/test_auto.py::test_a_known_point_far_away_draws_an_evolution_but_does_not_throw_it",
    ),
    (
        "minitune/search/evolution.py",
        "+ c_mu * v * square",
        "+ c_mu * v",
        "tests/search/test_auto.py::test_an_evolution_learns_how_far_to_go_on_each_axis",
    ),
    (
        "minitune/search/evolution.py",
        "c_sigma / damping * (length - 1)",
        "c_sigma / damping * (1 - length)",
        "tests/search/test_auto.py::test_an_evolution_that_has_come_to_an_end_looks_elsewhere",
    ),
    (
        "minitune/search/transfer.py",
        "            value = sign * (metrics",
        "            value = (metrics",
        "tests/search/test_transfer.py::test_max_means_the_largest",
    ),
    (
        "minitune/search/transfer.py",
        "value if math.isfinite(value) else math.inf, number",
        "value, number",
        "tests/search/test_transfer.py::test_an_earlier_run_without_a_finite_value_at_a_trial_has_this_trial_last",
    ),
    (
        "minitune/search/transfer.py",
        "            if values and not outside:\n",
        "            if values:\n",
        "tests/search/test_transfer.py::test_configurations_of_an_earlier_run_are_left_out_if_a_value_lies_outside",
    ),
    (
        "minitune/search/transfer.py",
        "better = better if rank and value == scored[rank - 1][0] else rank",
        "better = rank",
        "tests/search/test_transfer.py::test_equal_values_of_an_earlier_run_say_nothing_of_an_order",
    ),
    (
        "minitune/search/transfer.py",
        "        if len(self.observations) > _MOST_EARLIER:\n            step = len(rest)",
        "        if False:\n            step = len(rest)",
        "tests/search/test_transfer.py::test_a_long_earlier_run_costs_no_more_than_one_of_two_hundred_trials",
    ),
    (
        "minitune/search/transfer.py",
        "            return 0.0\n        # With few",
        "            return 1.0\n        # With few",
        "tests/search/test_transfer.py::test_the_weight_follows_the_order_of_the_new_trials",
    ),
    (
        "minitune/search/transfer.py",
        "distance = discordant / pairs + math",
        "distance = discordant / pairs + 0 * math",
        "tests/search/test_transfer.py::test_the_agreement_of_a_few_trials_counts_less_than_that_of_many",
    ),
    (
        "minitune/search/transfer.py",
        " * min(1.0, _FEWER_FROM / max(1, len(ended)))",
        "",
        "tests/search/test_transfer.py::test_an_earlier_run_is_followed_less_as_the_own_trials_become_more",
    ),
    (
        "minitune/search/transfer.py",
        "is_own=one.number >= 0",
        "is_own=True",
        "tests/search/test_transfer.py::test_what_an_earlier_run_has_tried_may_be_tried_again",
    ),
    (
        "minitune/search/transfer.py",
        "            total += own != place\n",
        "            total += 0\n",
        "tests/search/test_transfer.py::test_the_order_within_each_category_is_learned",
    ),
    (
        "minitune/search/transfer.py",
        "index in zip(predicted, sorted(range(len(own)), key=lambda each: own[each][1]), strict",
        "index in zip(predicted, range(len(own)), strict",
        "tests/search/test_transfer.py::test_the_best_new_trial_counts_as_the_best_place_that_new_trials_have_in_the_earlier_run",
    ),
    (
        "minitune/search/tpe.py",
        "            self._transfer_asked += 1\n",
        "",
        "tests/search/test_transfer.py::test_the_first_trials_are_the_best_ones_of_the_earlier_runs",
    ),
    (
        "minitune/search/tpe.py",
        '            "transfer_asked": self._transfer_asked,\n',
        '            "transfer_asked": 0,\n',
        "tests/search/test_transfer.py::test_a_saved_search_does_not_begin_again_with_the_best_one_of_the_earlier_run",
    ),
    (
        "minitune/search/study.py",
        "            if earlier:\n",
        "            if True:\n",
        "tests/search/test_transfer.py::test_no_earlier_run_is_as_none",
    ),
    (
        "minitune/search/study.py",
        "            check_several(metric, mode)\n",
        "            check_objectives(metric, mode)\n",
        "tests/search/test_study.py::test_several_objectives_are_checked_as_those_of_a_run",
    ),
    # -- stopper -------------------------------------------------------------------------------------------------------
    (
        "minitune/stopper/stopper.py",
        "            except Exception as error:  # a comparison of foreign types or arrays may raise anything\n"
        '                self._warn_once(name, f"its value {type(value).__name__} does not compare '
        '({error})")\n',
        '            except Exception:\n                return f"{name} was reached"\n',
        "tests/plugins/test_stoppers.py::test_a_missing_or_foreign_value_warns_once",
    ),
    (
        "minitune/stopper/stopper.py",
        "        return count >= self._max_iter",
        "        return count > self._max_iter",
        "tests/plugins/test_stoppers.py::test_what_users_pass_becomes_one_stopper",
    ),
    (
        "minitune/stopper/stopper.py",
        "        if self._last_check_s is None and not start:\n            return\n",
        "",
        "tests/plugins/test_stoppers.py::test_timeout_runs_from_the_first_question_and_survives_a_resume",
    ),
    (
        "minitune/stopper/stopper.py",
        '        is_past = value <= limit if self._mode == "min" else value >= limit',
        '        is_past = value >= limit if self._mode == "min" else value <= limit',
        "tests/plugins/test_stoppers.py::test_trial_plateau_threshold_may_be_zero",
    ),
    (
        "minitune/stopper/stopper.py",
        "        if count < self._grace_period or len(last)",
        "        if len(last)",
        "tests/plugins/test_stoppers.py::test_trial_plateau_waits_for_its_grace_period",
    ),
    # -- testing -------------------------------------------------------------------------------------------------------
    (
        "minitune/testing/smoke_runs.py",
        "    failed = [(result, result.error) for result in grid if result.error is not None]\n",
        "    failed = [(result, result.error) for result in grid[:1] if result.error is not None]\n",
        "tests/testing/test_smoke.py::test_a_failure_shows_the_users_frames_the_configuration_and_the_seed",
    ),
    (
        "minitune/testing/smoke_runs.py",
        "                os.environ[name] = before[name]\n            else:\n                del os.environ[name]\n",
        "                os.environ[name] = before[name]\n",
        "tests/testing/test_smoke.py::test_what_is_left_behind_is_named_and_undone_unless_it_may_stay",
    ),
    (
        "minitune/testing/smoke_runs.py",
        "        new = list(_children() - self._children)\n        if new:\n            psutil.wait_procs",
        "        new = []\n        if new:\n            psutil.wait_procs",
        "tests/testing/test_smoke.py::test_what_is_left_behind_is_named_and_undone_unless_it_may_stay",
    ),
    (
        "minitune/testing/scheduler_contract.py",
        "(math.nan, math.inf, -math.inf)[len(bad) % 3]",
        "(math.inf, -math.inf)[len(bad) % 2]",
        "tests/plugins/test_contracts.py::test_a_scheduler_that_breaks_a_rule_is_found_out",
    ),
    (
        "minitune/testing/scheduler_contract.py",
        '        assert after == before, "on_trial_result has changed the result or the configuration"\n',
        "",
        "tests/plugins/test_contracts.py::test_a_scheduler_that_breaks_a_rule_is_found_out",
    ),
    (
        "minitune/testing/searcher_contract.py",
        '                assert fits(domain, get_value(config, path)), f"{config} is not in the space, see {path}"\n',
        "                assert get_value(config, path) is not None\n",
        "tests/plugins/test_contracts.py::test_a_searcher_that_breaks_a_rule_is_found_out",
    ),
    (
        "minitune/testing/searcher_contract.py",
        "        assert random.getstate() == state\n        if",
        "        if",
        "tests/plugins/test_contracts.py::test_a_searcher_that_breaks_a_rule_is_found_out",
    ),
    # -- trainable -----------------------------------------------------------------------------------------------------
    (
        "minitune/trainable/session.py",
        "        self.time_total_s = float(_number(metrics.get(TIME_TOTAL_S), 0.0))\n",
        "        self.time_total_s = 0.0\n",
        "tests/trainable/test_class_trainable.py::test_save_and_restore",
    ),
    (
        "minitune/trainable/function_runner.py",
        "            if not self._reports.settle():\n                self._is_stopping = True\n"
        "            self._has_ended",
        "            self._has_ended",
        "tests/trainable/test_function_runner.py::test_an_exception_that_ends_the_function_in_report_is_t"
        "old_at_the_next_pull",
    ),
    (
        "minitune/trainable/function_runner.py",
        "    if isinstance(error, SystemExit):\n        return error.code is None or error.code == 0\n",
        "    if isinstance(error, SystemExit):\n        return True\n",
        "tests/trainable/test_function_runner.py::test_an_exception_is_the_answer_to_the_pull",
    ),
    (
        "minitune/trainable/function_runner.py",
        "            except BaseException as raised:\n                error = raised\n\n    def _as_metrics",
        "            except Exception as raised:\n                error = raised\n\n    def _as_metrics",
        "tests/trainable/test_function_runner.py::test_a_stop_runs_the_finally_blocks_of_a_generator",
    ),
    (
        "minitune/base/randomness.py",
        '    again = f"/failures/{failures}" if failures else ""\n',
        '    again = ""\n',
        "tests/trainable/test_seeding.py::test_an_attempt_after_a_failure_has_other_luck_and_the_same_in_each_run",
    ),
    (
        "minitune/trainable/function_runner.py",
        "            self._check_stopping()\n            self._goes_on(self._reports.settle())\n",
        "            self._reports.settle()\n",
        "tests/trainable/test_function_runner.py::test_stop_while_the_function_works_hits_the_next_report",
    ),
    (
        "minitune/trainable/trainable.py",
        "        if not self.reset_config(copy.deepcopy(new_config)):\n            return False\n",
        "        self.reset_config(copy.deepcopy(new_config))\n",
        "tests/trainable/test_class_trainable.py::test_reset_takes_another_config",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        self._session.seed_generators(metrics.get(TRAINING_ITERATION, 0))\n"
        "        self._trainable.restore_from(path, metrics)\n",
        "        self._trainable.restore_from(path, metrics)\n",
        "tests/trainable/test_seeding.py::test_a_class_that_was_restored_does_not_draw_the_same_again",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "            discard_temporary(directory, info.directory)\n            raise\n",
        "            raise\n",
        "tests/trainable/test_checkpoint.py::test_a_save_that_fails_leaves_nothing_behind",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        if not self._runner.has_ended:\n            return False\n",
        "",
        "tests/trainable/test_function_runner.py::test_an_actor_is_reused_once_its_function_has_unwound",
    ),
    # -- utils ---------------------------------------------------------------------------------------------------------
    (
        "minitune/utils/diagnosis.py",
        "        if not self.disable and duration_s > self.threshold:\n",
        "        if duration_s > self.threshold:\n",
        "tests/surface/test_utils.py::test_slow_things_are_logged",
    ),
    (
        "minitune/utils/diagnosis.py",
        "        if share <= target_util:\n",
        "        if share < target_util:\n",
        "tests/surface/test_utils.py::test_a_gpu_may_be_used_as_much_as_is_said",
    ),
    (
        "minitune/utils/mock_trainable.py",
        "(self._fails_again or not self.restored)",
        "not self.restored",
        "tests/surface/test_utils.py::test_the_mock_trainable_fails_once_or_always",
    ),
    (
        "minitune/utils/nested.py",
        "            allowed = new_keys_allowed or key in (allow_new_subkey_list or ())\n",
        "            allowed = new_keys_allowed\n",
        "tests/surface/test_utils.py::test_deep_update_says_which_keys_are_new",
    ),
    (
        "minitune/visualization/history.py",
        '            del history.points[record["number"] :]\n',
        "            pass\n",
        "tests/results/test_run_history.py::test_a_result_that_a_later_attempt_repeats_counts_once",
    ),
    (
        "minitune/visualization/history.py",
        "        elif kind == records.STATUS and change.step is not Step.TRAIN:\n",
        "        elif kind == records.STATUS:\n",
        "tests/results/test_run_history.py::test_times_of_work_follow_the_clock_of_the_run",
    ),
]

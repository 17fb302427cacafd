"""The faults that `mutants.py` puts into the code, by folder of the package.

Each is (file, text that stands in it exactly once, text that takes its place, tests that should notice). Change a fault
together with the code that it is about: `mutants.py --check` names the faults that have lost their place, and `--move`
corrects the file of those whose code stands in another file now. A test of the suite runs the check.
"""

from __future__ import annotations

FAULTS: list[tuple[str, str, str, str]] = [
    # -- (root) --------------------------------------------------------------------------------------------------------
    (
        "minitune/_assemble.py",
        "        ids.prefix = f\"{component_seed(seed, 'ids'):08x}\"[:5]\n",
        "        pass\n",
        "tests/differential/test_deterministic.py",
    ),
    (
        "minitune/_domains.py",
        "        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))",
        "        return list(values)",
        "tests/search/test_basic_variant.py tests/search/test_sampling.py",
    ),
    (
        "minitune/_domains.py",
        "        return space.keys() == value.keys() and all(fits(space[key], value[key]) for key in space)",
        "        return all(fits(space[key], value.get(key)) for key in space)",
        "tests/search/test_variants.py",
    ),
    (
        "minitune/_fit.py",
        "                    keeper.save()  # the searcher hears now that all trials are over, "
        "which is not so for a resume\n",
        "",
        "tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/_fit.py",
        "        if not opened.recorder.is_closed:  # refused before its loop began: it has "
        "failed, nobody has killed it\n"
        "            opened.recorder.close(_FAILED)\n"
        "        raise\n",
        "        raise\n",
        "tests/controller tests/commands",
    ),
    (
        "minitune/_fit.py",
        "                    hooks.experiment_ends(controller.trials, after_error=True)\n",
        "                    pass\n",
        "tests/controller/test_driver_plugin_errors.py",
    ),
    (
        "minitune/_live.py",
        "    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in running)",
        "    done = ended",
        "tests/output/test_live_view.py",
    ),
    (
        "minitune/_live.py",
        "    shown = rows if count <= room - 1 else rows[: max(0, room - 2)]",
        "    shown = rows[: max(0, room - 1)]",
        "tests/output/test_live_view.py",
    ),
    (
        "minitune/_live.py",
        "    if len(lines) > height:  # hardly any space: the bar, the best, then the errors",
        "    if len(lines) > height + 1:  # hardly any space: the bar, the best, then the errors",
        "tests/output/test_live_view.py",
    ),
    (
        "minitune/_live.py",
        "        if i and width_of(lines[0]) + 2 + columns_taken > width:",
        "        if i and width_of(lines[0]) + columns_taken > width:",
        "tests/output/test_live_view.py",
    ),
    (
        "minitune/_output_limit.py",
        "        left_out_bytes = source - begin + (before.left_out_bytes - before.note_bytes if "
        "before is not None else 0)",
        "        left_out_bytes = source - begin",
        "tests/output/test_output_limit.py",
    ),
    (
        "minitune/_output_limit.py",
        "            self._ended.append(trial)",
        "            pass",
        "tests/output/test_output_limit.py",
    ),
    (
        "minitune/_output_limit.py",
        "        file.truncate(target)\n",
        "",
        "tests/output/test_output_limit.py",
    ),
    (
        "minitune/_progress.py",
        "    return {trial_id: reason for trial_id, reason in reasons.items() if reason.startswith(_EARLY_ENDS)}",
        "    return {trial_id: reason for trial_id, reason in reasons.items() if reason.startswith(INTERRUPTED_BY)}",
        "tests/output/test_output_of_a_run.py tests/testing/test_ci_command.py",
    ),
    (
        "minitune/_progress.py",
        "            if total_samples == 1 and _has_choice(space):",
        "            if total_samples == 1:",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_replay.py",
        "    ends = sum(entry.text == HAS_RETURNED and _curve_of(other, entry.trial_id) in "
        "run.cut for entry in other.log)",
        "    ends = 0",
        "tests/simulation",
    ),
    (
        "minitune/_resume.py",
        "        return not is_fresh or saves_itself(component, plugin)",
        "        return True",
        "tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/_resume.py",
        "    return (replay.was_ended or is_closed) and not add_samples",
        "    return replay.was_ended or is_closed",
        "tests/resume/test_resume_choices.py",
    ),
    (
        "minitune/_resume.py",
        "    return (replay.was_ended or is_closed) and not add_samples",
        "    return replay.was_ended and not add_samples",
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
        "    for donation in state.donations.values():\n        recorder.pin(donation.donor, donation.record)\n",
        "",
        "tests/controller/test_driver_resume.py",
    ),
    (
        "minitune/_samplers.py",
        '    return random.Random(f"{seed}/{component}").getrandbits(32)',
        '    return random.Random(f"{seed}").getrandbits(32)',
        "tests/search/test_global_draws.py",
    ),
    (
        "minitune/_summary.py",
        "        return (self.at_least is None or value >= self.at_least) and (self.at_most is "
        "None or value <= self.at_most)",
        "        return (self.at_least is None or value >= self.at_least) or (self.at_most is "
        "None or value <= self.at_most)",
        "tests/testing/test_ci_command.py tests/testing/test_smoke.py",
    ),
    (
        "minitune/_summary.py",
        '        mode = mode or ("max" if at_least is not None else "min")',
        '        mode = mode or "max"',
        "tests/testing/test_ci_command.py tests/testing/test_smoke.py",
    ),
    (
        "minitune/_summary.py",
        "            if file.tell() + len(data) <= limit_bytes:",
        "            if file.tell() <= limit_bytes:",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/_summary.py",
        '.replace("|", "&#124;")',
        "",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/_summary.py",
        "    if not (page or record) or current_session() is not None:",
        "    if not (page or record):",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/_table.py",
        "        if rank is not None and status == TERMINATED:\n"
        "            chosen += sorted(ordered, key=rank)[: shares[status]]",
        "        if rank is not None and status == TERMINATED:\n            chosen += ordered[: shares[status]]",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_table.py",
        "            chosen += ordered[len(ordered) - shares[status] :]",
        "            chosen += ordered[: shares[status]]",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_table.py",
        "    most = ROWS_PER_STATUS if is_short and max_rows <= _FEW_ROWS else max_rows",
        "    most = max_rows",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_table.py",
        '        head = "".join(f"<th>{escape(header)}</th>" for header in self.headers)',
        '        head = "".join(f"<th>{header}</th>" for header in self.headers)',
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_table.py",
        "            value = value.get(part) if isinstance(value, Mapping) else None",
        "            value = value.get(part)",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_table.py",
        "    found = trial.evaluated_params.get(name)\n"
        "    return look_up(trial.config, name) if found is None else found",
        "    return trial.evaluated_params.get(name)",
        "tests/output/test_output_of_a_run.py tests/plugins/test_progress_reporter.py",
    ),
    (
        "minitune/_trial_output.py",
        "                shown[path] = min(shown.get(path, 0), size_bytes)  # its middle may have been left out",
        "                shown.setdefault(path, 0)",
        "tests/output/test_output_of_trials.py",
    ),
    (
        "minitune/_trial_output.py",
        '            data = data[: data.rfind(b"\\n") + 1]',
        "            pass",
        "tests/output/test_output_of_trials.py",
    ),
    (
        "minitune/_trial_output.py",
        "            self._shown_bytes = {path: os.path.getsize(path) for path in paths if os.path.exists(path)}",
        "            self._shown_bytes = {}",
        "tests/output/test_output_of_trials.py",
    ),
    (
        "minitune/checkpoint.py",
        "    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode))\n",
        "",
        "tests/trainable/test_checkpoint.py",
    ),
    (
        "minitune/checkpoint.py",
        "    except BaseException:\n"
        "        import shutil\n"
        "\n"
        "        shutil.rmtree(temporary, ignore_errors=True)\n"
        "        raise\n"
        "    return _commit(temporary",
        "    except BaseException:\n        raise\n    return _commit(temporary",
        "tests/trainable/test_checkpoint.py",
    ),
    (
        "minitune/checkpoint.py",
        "        os.symlink(os.readlink(source), target)\n        return _list_entry(target, name, chunk)\n",
        "        source = os.path.realpath(source)\n",
        "tests/trainable/test_report.py tests/faults",
    ),
    (
        "minitune/checkpoint.py",
        "        names = [name for name in names if not _IN_CHECKPOINT.match(name)]\n",
        "        pass\n",
        "tests/trainable/test_report.py",
    ),
    (
        "minitune/checkpoint.py",
        "            crc = zlib.crc32(whole[:count], crc)\n",
        "            crc = zlib.crc32(whole[:count])\n",
        "tests/trainable tests/faults/test_faults_files_runs.py",
    ),
    (
        "minitune/clock.py",
        "            self.now_s = max(self.now_s + duration_s, math.nextafter(self.now_s, math.inf))",
        "            self.now_s += duration_s",
        "tests/execution tests/simulation",
    ),
    (
        "minitune/pickling.py",
        "                if id(part) in self._seen or self.can_pickle(part):",
        "                if self.can_pickle(part):",
        "tests/trainable/test_pickling.py tests/faults/test_faults_serialization_properties.py",
    ),
    (
        "minitune/pickling.py",
        "        self._size_bytes += buffer.raw().nbytes\n",
        "",
        "tests/trainable/test_pickling.py tests/faults/test_faults_serialization.py tests/runs/test_resources.py",
    ),
    (
        "minitune/pickling.py",
        "    return found if isinstance(found, type) else pickle.loads(copy)",
        "    return pickle.loads(copy)",
        "tests/faults/test_faults_serialization.py tests/trainable/test_pickling.py",
    ),
    (
        "minitune/pickling.py",
        '        vars(sys.modules["__main__"]).setdefault(name, made)',
        "        pass",
        "tests/faults/test_faults_serialization.py tests/trainable/test_pickling.py",
    ),
    (
        "minitune/resources.py",
        "    return {name: amount for name, amount in clean.items() if amount}",
        "    return clean",
        "tests/resources/test_requests.py",
    ),
    (
        "minitune/resources.py",
        "    if name == GPU and plain > 1 and not plain.is_integer():\n",
        "    if False:\n",
        "tests/resources/test_requests.py",
    ),
    (
        "minitune/result.py",
        "        flat.update(deeper)\n        return flat\n    return _flatten_deep",
        "        return {**deeper, **flat}\n    return _flatten_deep",
        "tests/results tests/surface tests/plugins",
    ),
    (
        "minitune/result_grid.py",
        "            kept = kept[-checkpoint_config.num_to_keep :]\n",
        "            kept = kept[: checkpoint_config.num_to_keep]\n",
        "tests/controller/test_driver_checkpoints.py",
    ),
    (
        "minitune/result_grid.py",
        "        config = metrics.get(CONFIG) or (trial.config if trial is not None else read_params(directory))\n",
        "        config = metrics.get(CONFIG) or (trial.config if trial is not None else {})\n",
        "tests/results/test_results.py",
    ),
    (
        "minitune/settings.py",
        "        if value:\n            return value\n",
        "        if variable in environ:\n            return value\n",
        "tests/entry/test_run.py",
    ),
    (
        "minitune/shared.py",
        "    except BaseException:\n        os.unlink(temporary)\n        raise\n",
        "    except BaseException:\n        raise\n",
        "tests/trainable/test_large_values.py tests/faults/test_faults_serialization.py",
    ),
    (
        "minitune/shared.py",
        "            if is_mapped:\n                self.forget()\n",
        "",
        "tests/trainable/test_large_values.py",
    ),
    (
        "minitune/value_file.py",
        "        if magic != _MAGIC or (spot.token and token != spot.token.encode()):",
        "        if magic != _MAGIC:",
        "tests/trainable/test_large_values.py tests/faults/test_faults_serialization.py",
    ),
    (
        "minitune/value_file.py",
        "        os.ftruncate(descriptor, offset)\n        raise",
        "        raise",
        "tests/trainable/test_large_values.py tests/faults/test_faults_serialization.py "
        "tests/faults/test_faults_files_space.py",
    ),
    (
        "minitune/value_file.py",
        "            return mmap.mmap(file.fileno(), end - offset, access=mmap.ACCESS_COPY, offset=offset), offset",
        "            return mmap.mmap(file.fileno(), end - offset, access=mmap.ACCESS_WRITE, offset=offset), offset",
        "tests/trainable/test_large_values.py",
    ),
    (
        "minitune/value_file.py",
        "    if os.getpid() != owner_pid:  # a forked child leaves what its parent has\n        return\n",
        "",
        "tests/trainable/test_large_values.py tests/faults/test_faults_serialization.py",
    ),
    # -- actor ---------------------------------------------------------------------------------------------------------
    (
        "minitune/actor/channel.py",
        "                    unsent[0] = part[sent:]",
        "                    unsent.popleft()",
        "tests/actor/test_actor_calls.py",
    ),
    (
        "minitune/actor/frames.py",
        "    if size_bytes > limit_bytes:\n        raise ValueError(",
        "    if size_bytes > 2 * limit_bytes:\n        raise ValueError(",
        "tests/actor/test_frames_properties.py tests/actor/test_actor_calls.py",
    ),
    (
        "minitune/actor/limits.py",
        "CHANNEL_LOST_EXIT = 113",
        "CHANNEL_LOST_EXIT = 1",
        "tests/actor/test_actor_deaths.py tests/runs/test_hostile_trials.py",
    ),
    (
        "minitune/actor/memory_kills.py",
        "        self._seen = {path: min(count, self._seen.get(path, count) + 1) for path, count in now.items()}",
        "        self._seen = now",
        "tests/actor/test_memory_kills.py",
    ),
    (
        "minitune/actor/memory_kills.py",
        '                value, newline, _ = lines.partition(b"\\n%b " % _COUNTER.encode())[2].partition(b"\\n")',
        '                value, newline, _ = lines.partition(b"%b " % _COUNTER.encode())[2].partition(b"\\n")',
        "tests/actor/test_memory_kills.py",
    ),
    (
        "minitune/actor/process.py",
        "        self._is_dead = True\n        self._drain()\n        self.phase = Phase.DYING\n",
        "        self._is_dead = True\n        self.phase = Phase.DYING\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/process.py",
        "            if message.number > self._number:\n                raise ProtocolError(",
        "            if message.number > self._number + 10**9:\n                raise ProtocolError(",
        "tests/actor/test_actor_deaths.py tests/actor/test_actor_calls.py",
    ),
    (
        "minitune/actor/process.py",
        'if self._exit_code == -9 and not self._is_stopped else ""',
        'if self._exit_code == -9 else ""',
        "tests/actor/test_memory_kills.py tests/faults/test_faults_workers.py",
    ),
    (
        "minitune/actor/process.py",
        "        self._parks = self._parks and keep\n",
        "",
        "tests/actor/test_actor_places.py tests/actor/test_actor_calls.py",
    ),
    (
        "minitune/actor/process.py",
        "            self._terminate(grace_s)\n        elif",
        "            self.kill()\n        elif",
        "tests/actor tests/runs/test_interrupts.py",
    ),
    (
        "minitune/actor/process.py",
        "        self._launcher.signal(self.token, signal.SIGTERM, whole_group=True)\n",
        "",
        "tests/runs/test_hostile_trials.py tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/surroundings.py",
        "        os.umask(self._umask)\n        for descriptor, saved",
        "        for descriptor, saved",
        "tests/actor/test_actor_places.py tests/runs/test_reused_workers.py",
    ),
    (
        "minitune/actor/surroundings.py",
        "            if present is not handler and handler is not None:\n"
        "                _signal.signal(number, handler)\n",
        "            if present is not handler and handler is not None and number != 15:\n"
        "                _signal.signal(number, handler)\n",
        "tests/actor/test_actor_places.py tests/runs/test_reused_workers.py",
    ),
    (
        "minitune/actor/surroundings.py",
        '        if sys.platform != "win32":\n            _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)\n',
        "",
        "tests/actor/test_actor_places.py tests/runs/test_reused_workers.py",
    ),
    (
        "minitune/actor/surroundings.py",
        "        sys.path[:], sys.argv[:] = self._path, self._argv\n",
        "        sys.path[:] = self._path\n",
        "tests/runs/test_hostile_trials.py",
    ),
    (
        "minitune/actor/surroundings.py",
        "        _restore_limits(self._limits)\n",
        "",
        "tests/actor/test_actor_places.py",
    ),
    (
        "minitune/actor/tree.py",
        "            if started:\n"
        "                self._hit[pid] = started\n"
        "                send_signal(pid, _SIGKILL)\n",
        "            if started:\n                send_signal(pid, _SIGKILL)\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/tree.py",
        "    if pid <= 1:  # 0 and below would mean whole groups, ours first\n        return False\n",
        "    if pid < 0:\n        return False\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/worker.py",
        "        if call.number <= self._answered:  # the user's thread was interrupted when it "
        "was about to take this out\n"
        "            return\n",
        "",
        "tests/trainable/test_signals_in_report.py tests/actor/test_actor_calls.py",
    ),
    (
        "minitune/actor/worker.py",
        "        if self._is_asked_to_stop and os.getpid() == self._pid:\n",
        "        if self._is_asked_to_stop:\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/worker.py",
        "        self._is_asked_to_stop = False\n        self._send(Returned(message.number))",
        "        self._send(Returned(message.number))",
        "tests/actor/test_actor_places.py tests/runs/test_reused_workers.py",
    ),
    (
        "minitune/actor/worker.py",
        "        if any(thread.ident not in own for thread in threading.enumerate()):\n            return True\n",
        "",
        "tests/actor/test_actor_places.py",
    ),
    (
        "minitune/actor/worker.py",
        "                if (not shown or marker in shown) and tree.life(pid):\n                    return True\n",
        "                pass\n",
        "tests/actor/test_actor_places.py",
    ),
    (
        "minitune/actor/zygote.py",
        "            pidfd = os.pidfd_open(pid)  # before it can be reaped, so it means this "
        "process and no other\n"
        "        except OSError as error:  # no descriptors left\n"
        '            self._tell(["refused", token, f"no descriptor was left to watch the '
        'process: {error.strerror}"])\n'
        "            self._kill(tracked.token)\n",
        "            pidfd = os.pidfd_open(pid)\n"
        "        except OSError as error:\n"
        '            self._tell(["refused", token, f"no descriptor was left to watch the '
        'process: {error.strerror}"])\n',
        "tests/actor/test_actor_start.py",
    ),
    (
        "minitune/actor/zygote.py",
        "            if tree.session(pid) == tracked.pid or tracked.marker.encode() in shown:\n",
        "            if tree.session(pid) == tracked.pid:\n",
        "tests/actor/test_actor_deaths.py tests/runs/test_hostile_trials.py",
    ),
    (
        "minitune/actor/zygote.py",
        "            elif self._keep_descendants and tracked.exit_code == 0:\n",
        "            elif self._keep_descendants:\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/zygote.py",
        "        if not (whole_group and tree.kill_group(tracked.pid, int(number))):\n"
        "            tree.send_signal(tracked.pid, int(number))\n",
        "        tree.send_signal(tracked.pid, int(number))\n",
        "tests/actor/test_actor_deaths.py",
    ),
    (
        "minitune/actor/zygote.py",
        "        _reseed()\n        return worker.Seat",
        "        return worker.Seat",
        "tests/actor/test_actor_start.py tests/trainable/test_seeding.py",
    ),
    (
        "minitune/actor/zygote.py",
        "    if threads > 1:\n",
        "    if threads > 2:\n",
        "tests/actor/test_actor_start.py",
    ),
    # -- analysis ------------------------------------------------------------------------------------------------------
    (
        "minitune/analysis/experiment_analysis.py",
        "        best = best_trial(self.trials, metric, mode, scope, filter_nan_and_inf)\n",
        "        best = best_trial(self.trials, metric, mode, scope)\n",
        "tests/results/test_analysis.py tests/results/test_results.py",
    ),
    (
        "minitune/analysis/experiment_analysis.py",
        '        return None if trial is None else self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")',
        "        return None if trial is None else self.get_best_checkpoint(trial, metric, mode)",
        "tests/results/test_analysis.py",
    ),
    (
        "minitune/analysis/experiment_analysis.py",
        "        self.default_metric = default_metric or (DEFAULT_METRIC if default_mode else None)",
        "        self.default_metric = default_metric",
        "tests/results/test_analysis.py tests/controller/test_driver_results.py",
    ),
    (
        "minitune/analysis/rows.py",
        "    return rows[-1] if best is None else best",
        "    return rows[0] if best is None else best",
        "tests/results",
    ),
    (
        "minitune/analysis/rows.py",
        "            tree[key] = math.nan if value is None else _INFINITIES[value]",
        "            tree[key] = math.nan",
        "tests/results tests/plugins",
    ),
    # -- commands ------------------------------------------------------------------------------------------------------
    (
        "minitune/commands/ci.py",
        "            for one in tree:\n"
        "                try:\n"
        "                    one.kill()\n"
        "                except psutil.Error:\n"
        "                    continue\n",
        "            del tree\n",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/commands/ci.py",
        '    value = max(high for _, high in found) if target.mode == "max" else min(low for low, _ in found)\n',
        "    value = max(high for _, high in found)\n",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/commands/ci.py",
        "    return PASSED if not problems else status if status not in (PASSED, None) else FAILED",
        "    return PASSED if not problems else FAILED",
        "tests/testing/test_ci_command.py",
    ),
    (
        "minitune/commands/doctor.py",
        "        if seen.is_unfinished and state_of(path, seen.close_reason).can_go_on:\n",
        "        if seen.is_unfinished:\n",
        "tests/commands/test_doctor.py",
    ),
    (
        "minitune/commands/doctor.py",
        "all(one.pid == 1 or _is_of_trial(one) for one in process.parents())",
        "True",
        "tests/commands/test_doctor.py",
    ),
    (
        "minitune/commands/listing.py",
        "        rows = [*sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc), *missing]\n",
        "        rows = [*missing, *sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc)]\n",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/listing.py",
        '            fits = match["sign"] == "!="\n',
        "            fits = False\n",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/rerun.py",
        "        check_trusted(path)\n        run = read_run(path, unpickle=True)\n",
        "        run = read_run(path, unpickle=True)\n",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/rerun.py",
        '            start = shutil.copytree(self._origin.path, os.path.join(directory, "start"), dirs_exist_ok=True)',
        "            start = self._origin.path",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/rerun.py",
        "        os.chdir(cwd)\n        os.environ.clear()\n        os.environ.update(before)\n",
        "        os.chdir(cwd)\n",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/rerun.py",
        "    return max(1, trial.report_count - origin.report_number + had_own_end)",
        "    return max(1, trial.report_count + had_own_end)",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/resuming.py",
        "    if any(trial.experiment_number for trial in run.trials):",
        "    if False:",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/resuming.py",
        "    if grid.interrupted:\n        return ENDED_EARLY\n",
        "",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/resuming.py",
        '            own = arguments[end + 1 :] if arguments[end : end + 1] == ["--"] else arguments[end:]',
        "            own = arguments[end:]",
        "tests/commands/test_again.py",
    ),
    (
        "minitune/commands/selecting.py",
        "is_number = wanted.isdigit() and len(wanted) < 5  # an end of an id has five digits",
        "is_number = wanted.isdigit()",
        "tests/commands",
    ),
    (
        "minitune/commands/selecting.py",
        "        return self.name in (INTERRUPTED_RUN, FAILED, KILLED)",
        "        return self.name in (INTERRUPTED_RUN, KILLED)",
        "tests/commands/test_doctor.py",
    ),
    (
        "minitune/commands/showing.py",
        "    if trial.checkpoints and trial.checkpoints[-1] is not kept:",
        "    if trial.checkpoints:",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/showing.py",
        '    value = trial.analysis.get(metric, mode if scope == "all" else scope)',
        '    value = trial.analysis.get(metric, "last")',
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/showing.py",
        "    if _last(trial, metric) == value:\n        return trial.last_result.get(TRAINING_ITERATION)\n",
        "    return trial.last_result.get(TRAINING_ITERATION)\n",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/watching.py",
        "    if state.name not in (FINISHED_RUN, STOPPED):\n        return ENDED_EARLY\n",
        "",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/watching.py",
        "                position_bytes = min(position_bytes, file.seek(0, os.SEEK_END))  # its "
        "middle may have been left out\n",
        "",
        "tests/commands/test_looking.py",
    ),
    (
        "minitune/commands/watching.py",
        '    decoder = codecs.getincrementaldecoder("utf-8")("replace")',
        '    decoder = codecs.getincrementaldecoder("ascii")("replace")',
        "tests/commands/test_looking.py",
    ),
    # -- examples ------------------------------------------------------------------------------------------------------
    (
        "minitune/examples/quickstart.py",
        "        network, epoch = load(checkpoint.path)\n",
        "        network, _ = load(checkpoint.path)\n",
        "tests/test_demo.py",
    ),
    (
        "minitune/examples/quickstart.py",
        "            row[j] -= lr * (",
        "            row[j] += lr * (",
        "tests/test_demo.py",
    ),
    (
        "minitune/examples/quickstart.py",
        "    if grid.errors:\n"
        '        print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", '
        "file=sys.stderr)\n"
        "        return 1\n",
        "",
        "tests/test_demo.py",
    ),
    (
        "minitune/examples/resume.py",
        '        loss, epoch = state["loss"], state["epoch"]\n',
        '        loss = state["loss"]\n',
        "tests/test_examples.py::test_a_killed_tuning_goes_on_at_its_checkpoints",
    ),
    (
        "minitune/examples/resume.py",
        '        if run.exists():\n            parser.error(f"{run} exists already: give another --storage")\n',
        "",
        "tests/test_examples.py::test_a_killed_tuning_goes_on_at_its_checkpoints",
    ),
    # -- execution -----------------------------------------------------------------------------------------------------
    (
        "minitune/execution/checkpoint_manager.py",
        "        if entry.trial.checkpoints[-1] is entry.kept:\n            return True\n",
        "",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        "            if entry is spared or entry.key in self._pins or is_settled:\n",
        "            if entry is spared or is_settled:\n",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        "            if entry is spared or entry.key in self._pins or is_settled:",
        "            if entry is spared or entry.key in self._pins:",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        '        self._sign = 1.0 if order == "max" else -1.0',
        '        self._sign = -1.0 if order == "max" else 1.0',
        "tests/controller/test_driver_checkpoints.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        "        return (-math.inf if math.isnan(value) else value), age",
        "        return value, age",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        "        if trial.status == TERMINATED:  # an ERROR may be resumed, from its newest checkpoint\n",
        "        if trial.is_finished():\n",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/checkpoint_manager.py",
        "        if entry is None or entry.key in self._pins:\n",
        "        if entry is None:\n",
        "tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/deadlines.py",
        "            ends_s.pop(actor_id, None)\n            ends_s[actor_id] = now_s",
        "            ends_s[actor_id] = now_s",
        "tests/controller/test_driver_limits.py tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/deadlines.py",
        "                self.forget(actor_id)\n                found",
        "                ends_s.pop(actor_id)\n                found",
        "tests/controller/test_driver_limits.py tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/decisions.py",
        '        return {"rung": rung, "rank": 1 + len(scores) - bisect_right(scores, score), "of": len(scores)}',
        '        return {"rung": rung, "rank": len(scores) - bisect_right(scores, score), "of": len(scores)}',
        "tests/results tests/commands/test_looking.py tests/controller/test_driver_halving.py",
    ),
    (
        "minitune/execution/decisions.py",
        "        if told.is_open and told.decisions[-1].action == PAUSE:  # it was decided upon "
        "this very result\n"
        "            last = told.decisions.pop()",
        "        if told.is_open and told.decisions[-1].action == PAUSE:  # it was decided upon "
        "this very result\n"
        "            last = told.decisions[-1]",
        "tests/results/test_analysis.py tests/controller/test_populations.py",
    ),
    (
        "minitune/execution/decisions.py",
        "            told.waits_at = None\n        elif",
        "        elif",
        "tests/results/test_analysis.py tests/controller/test_driver_halving.py",
    ),
    (
        "minitune/execution/devices.py",
        '        depth = 0 if ".." in parts else len(parts)',
        "        depth = len(parts)",
        "tests/resources/test_devices.py",
    ),
    (
        "minitune/execution/devices.py",
        "            break\n        ids[entry] = None",
        "            continue\n        ids[entry] = None",
        "tests/resources/test_devices.py",
    ),
    (
        "minitune/execution/devices.py",
        "    return max(1, math.floor(min([float(count), *quotas])))",
        "    return max(1, math.ceil(min([float(count), *quotas])))",
        "tests/resources/test_devices.py",
    ),
    (
        "minitune/execution/disk_space.py",
        "        return waited_s >= PATIENCE_S or self._held_bytes < RESERVE_BYTES // 2",
        "        return waited_s >= PATIENCE_S",
        "tests/faults/test_faults_files_space.py tests/storage",
    ),
    (
        "minitune/execution/disk.py",
        "        self._held_bytes -= _PIECE_BYTES\n",
        "",
        "tests/faults/test_faults_files_space.py tests/storage",
    ),
    (
        "minitune/execution/failure.py",
        "(allowed < 0 or trial.num_failures <= allowed)",
        "(allowed < 0 or trial.num_failures < allowed)",
        "tests/controller/test_driver_failures.py",
    ),
    (
        "minitune/execution/failure.py",
        "    if not reported:\n        return None\n",
        "",
        "tests/controller/test_driver_stopping.py",
    ),
    (
        "minitune/execution/failure.py",
        "if event.cause == _KILLED else",
        "if event.cause != _KILLED else",
        "tests/runs/test_deaths.py",
    ),
    (
        "minitune/base/files.py",
        "            if sync:\n                sync_descriptor(descriptor)\n",
        "",
        "tests/storage/test_syncs.py",
    ),
    (
        "minitune/base/files.py",
        "        sync_directory(top)\n        yield\n",
        "",
        "tests/storage/test_syncs.py",
    ),
    (
        "minitune/base/files.py",
        "                    (os.unlink if is_link else os.rmdir)(name, dir_fd=top)",
        "                    (shutil_rmtree if is_link else os.rmdir)(name, dir_fd=top)",
        "tests/storage/test_storage.py",
    ),
    (
        "minitune/base/files.py",
        "BLOB_MODE = 0o600",
        "BLOB_MODE = 0o644",
        "tests/storage tests/faults/test_faults_security.py",
    ),
    (
        "minitune/execution/gpu_placement.py",
        "        host = min(fitting, key=left.__getitem__)",
        "        host = max(fitting, key=left.__getitem__)",
        "tests/resources",
    ),
    (
        "minitune/execution/hooks.py",
        "        if decision == STOP:\n"
        "            result[DONE] = True\n"
        "        else:\n"
        "            self._tell_searcher(trial, flat)\n",
        "        if decision == STOP:\n            result[DONE] = True\n        self._tell_searcher(trial, flat)\n",
        "tests/controller/test_driver_order.py",
    ),
    (
        "minitune/execution/hooks.py",
        "            if not result.get(DONE):  # a stop that came from elsewhere, after the "
        "searcher had heard of the result\n"
        "                self._tell_searcher(trial, told)\n",
        "            self._tell_searcher(trial, told)\n",
        "tests/controller/test_driver_resume.py tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/execution/hooks.py",
        "                if after_error or first is not None:\n"
        '                    logger.warning("%s", error)\n'
        "                else:\n"
        "                    first = error\n",
        "                raise\n",
        "tests/controller/test_driver_plugin_errors.py",
    ),
    (
        "minitune/execution/housekeeper.py",
        "            if done:\n                self._settled[key] = directory",
        "            self._settled[key] = directory",
        "tests/storage/test_housekeeper.py",
    ),
    (
        "minitune/execution/housekeeper.py",
        "            if self._settling is not None and self._settling[0] == key:\n"
        "                found.append(self._settling[1])\n",
        "",
        "tests/storage/test_housekeeper.py tests/storage/test_checkpoint_manager.py",
    ),
    (
        "minitune/execution/housekeeper.py",
        "                self._next_settle[key] = now + SETTLE_PERIOD_S\n",
        "",
        "tests/storage/test_housekeeper.py",
    ),
    (
        "minitune/execution/inline.py",
        "        if actor is None:\n            return\n        self._drop(actor)\n",
        "        if actor is None:\n            return\n",
        "tests/execution",
    ),
    (
        "minitune/execution/inline.py",
        "            heapq.heapify(answers)\n            self._ends = answers",
        "            heapq.heapify(answers)",
        "tests/execution",
    ),
    (
        "minitune/execution/interrupts.py",
        "            if number is None or signal.getsignal(number) in (signal.SIG_IGN, None):\n",
        "            if number is None:\n",
        "tests/faults/test_faults_driver.py tests/runs/test_interrupts.py",
    ),
    (
        "minitune/execution/journal.py",
        "            if self._torn_bytes:\n                self._cut_back(descriptor)\n            written",
        "            written",
        "tests/storage/test_journal.py",
    ),
    (
        "minitune/execution/journal.py",
        "    if later == offset:  # also where a writer has completed it meanwhile\n        return\n",
        "    if later >= offset:\n        return\n",
        "tests/storage/test_journal.py",
    ),
    (
        "minitune/execution/journal.py",
        "not 1 <= schema <= records.SCHEMA",
        "schema < 1",
        "tests/storage/test_journal.py",
    ),
    (
        "minitune/execution/journal.py",
        "            os.lseek(writer, self._synced_bytes, os.SEEK_SET)",
        "            os.lseek(writer, 0, os.SEEK_END)",
        "tests/storage/test_journal.py",
    ),
    (
        "minitune/execution/journal.py",
        "                rest = memoryview(lines)\n"
        "                while rest:\n"
        "                    rest = rest[os.write(writer, rest) :]\n"
        "                files.sync_descriptor(writer)\n",
        "                rest = memoryview(lines)\n"
        "                while rest:\n"
        "                    rest = rest[os.write(writer, rest) :]\n",
        "tests/storage/test_journal.py tests/storage/test_syncs.py",
    ),
    (
        "minitune/execution/journal.py",
        "            copy.flush()\n"
        "            files.sync_descriptor(copy.fileno())\n"
        "        files.sync_directory(os.path.dirname(path))\n"
        "        file.truncate(length)\n",
        "            copy.flush()\n"
        "        file.truncate(length)\n"
        "        files.sync_directory(os.path.dirname(path))\n",
        "tests/storage/test_syncs.py",
    ),
    (
        "minitune/execution/journal.py",
        '            if durability != "process":\n                files.sync_directory(os.path.dirname(file))\n',
        "            pass\n",
        "tests/storage/test_syncs.py",
    ),
    (
        "minitune/execution/journal_codec.py",
        '    if line[:8] != b"%08x" % zlib.crc32(body):\n',
        "    if int(line[:8], 16) != zlib.crc32(body):\n",
        "tests/storage/test_journal_codec.py tests/storage/test_journal.py",
    ),
    (
        "minitune/execution/launcher.py",
        "        self._recorder.attempt_starts(trial)\n"
        '        self._state.move(trial, Step.START, f"attempt {trial.attempt}")\n',
        '        self._state.move(trial, Step.START, f"attempt {trial.attempt}")\n'
        "        self._executor.wait(0)\n"
        "        self._recorder.attempt_starts(trial)\n",
        "tests/controller/test_driver_disk.py",
    ),
    (
        "minitune/execution/launcher.py",
        "        self._deadlines.begin(trial.actor_id, TRIAL, self._executor.now())\n",
        "",
        "tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/launcher.py",
        'f"{seed}/trial/{number}"',
        'f"{seed}/trial/{number // 2}"',
        "tests/runs/test_seeds_on_record.py tests/trainable/test_seeding.py",
    ),
    (
        "minitune/execution/launcher.py",
        "        return len(self._state.live) + len(self._state.leaving)",
        "        return len(self._state.live)",
        "tests/controller/test_driver_limits.py tests/runs/test_hostile_trials.py",
    ),
    (
        "minitune/execution/launcher.py",
        "                if not self._executor.can_start(self._state.trials[-1].resources):\n"
        "                    return False\n",
        "                self._executor.can_start(self._state.trials[-1].resources)\n",
        "tests/controller/test_driver_searchers.py",
    ),
    (
        "minitune/execution/launcher.py",
        "        self._recorder.note_changes(trial)  # a scheduler may have completed its configuration\n",
        "",
        "tests/controller/test_populations.py tests/resume/test_resume_choices.py",
    ),
    (
        "minitune/execution/ledger.py",
        "            if count > self._free[name]:\n",
        "            if count >= self._free[name]:\n",
        "tests/resources/test_ledger.py",
    ),
    (
        "minitune/execution/ledger.py",
        "        self._move(self._total, self._gpu_total, holding.demand, holding.placement, -1)\n"
        "        self._demands.clear()\n",
        "        self._move(self._total, self._gpu_total, holding.demand, holding.placement, -1)\n",
        "tests/resources/test_ledger.py",
    ),
    (
        "minitune/execution/ledger.py",
        "    count = math.ceil(exact - 1e-6)  # 0.1 * 3 is a little more than 0.3\n",
        "    count = math.ceil(exact)\n",
        "tests/resources/test_ledger.py",
    ),
    (
        "minitune/execution/ledger.py",
        "str(max(1, math.floor(cpus)))",
        "str(max(1, math.ceil(cpus)))",
        "tests/resources/test_worker_environment.py",
    ),
    (
        "minitune/execution/ledger.py",
        "        self.forget(waiter)\n        self._move(self._free",
        "        self._move(self._free",
        "tests/resources/test_fairness.py",
    ),
    (
        "minitune/execution/local.py",
        "            self._ledger.write_off(actor.actor_id)",
        "            self._ledger.release(actor.actor_id)",
        "tests/faults/test_faults_workers.py",
    ),
    (
        "minitune/execution/local.py",
        "        preload = actor.request.required_resources.get(GPU, 0) == 0 and _has_one_thread(place.env)",
        "        preload = _has_one_thread(place.env)",
        "tests/runs/test_imports_once.py tests/runs/test_resources.py tests/faults/test_faults_host.py",
    ),
    (
        "minitune/execution/logical_order.py",
        "        actor.due = (self._time + after, next(self._numbers))",
        "        actor.due = (self._time, next(self._numbers))",
        "tests/execution/test_logical_order_properties.py tests/differential/test_deterministic.py",
    ),
    (
        "minitune/execution/past_results.py",
        "            if until is None or offset < until:\n",
        "            if True:\n",
        "tests/resume/test_many_results.py tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/execution/past_run.py",
        '            del self.run.curves[trial_id][record["number"] :]\n            self._ended',
        "            self._ended",
        "tests/simulation",
    ),
    (
        "minitune/execution/past_run.py",
        '            self.run.curves.pop(record.get("replaces", ""), None)\n',
        "",
        "tests/simulation",
    ),
    (
        "minitune/execution/past_run.py",
        "            if trial_id in self._exploited or (trial_id not in self._ended and len(curve) < longest)",
        "            if trial_id not in self._ended and len(curve) < longest",
        "tests/simulation",
    ),
    (
        "minitune/execution/pickled.py",
        "        if _sha256(data) != name:\n",
        "        if False:\n",
        "tests/storage/test_journal_codec.py tests/faults/test_faults_security.py",
    ),
    (
        "minitune/execution/plain_files.py",
        "    return not ends_whole or lines != (reports + more if reports else 0)",
        "    return lines != (reports + more if reports else 0)",
        "tests/faults/test_faults_files_plain.py",
    ),
    (
        "minitune/execution/plugin_states.py",
        "os.path.isfile(path) and _sha256(path) == digest",
        "os.path.isfile(path)",
        "tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/execution/plugin_states.py",
        "                    os.chmod(os.path.join(directory, name), files.BLOB_MODE)  # a "
        "plug-in's own way may leave it open\n",
        "",
        "tests/resume/test_plugin_states.py tests/faults/test_faults_security.py",
    ),
    (
        "minitune/execution/plugin_states.py",
        "            if state is not None and name == type(callback).__qualname__:\n",
        "            if state is not None:\n",
        "tests/resume/test_plugin_states.py",
    ),
    (
        "minitune/execution/read_run.py",
        "        elif status == PENDING and trial.phase in OWNS_ACTOR and not cause.startswith(LOST):\n",
        "        elif status == PENDING and trial.phase in OWNS_ACTOR:\n",
        "tests/resume/test_resume_order.py tests/results/test_analysis.py",
    ),
    (
        "minitune/execution/recorder.py",
        "            self._journal.append(records.drop(item.trial.trial_id, item.record.number))\n"
        "            self._checkpoints.remove(item)\n",
        "            self._checkpoints.remove(item)\n"
        "            self._journal.append(records.drop(item.trial.trial_id, item.record.number))\n",
        "tests/controller/test_driver_disk.py tests/storage",
    ),
    (
        "minitune/execution/recorder.py",
        "            if self._is_strict:\n"
        "                self._settle(trial, kept.record)\n"
        "            self._journal.append(records.checkpoint(trial.trial_id, trial.attempt, "
        "kept.report_number, kept.record))",
        "            self._journal.append(records.checkpoint(trial.trial_id, trial.attempt, "
        "kept.report_number, kept.record))\n"
        "            if self._is_strict:\n"
        "                self._settle(trial, kept.record)",
        "tests/storage/test_syncs.py",
    ),
    (
        "minitune/execution/recorder.py",
        "        if trial.attempt > 1 and trial.error is None:\n            remove_error_pickle(trial.local_path)\n",
        "",
        "tests/controller/test_driver_disk.py",
    ),
    (
        "minitune/execution/replay.py",
        "        if cause.startswith(LOST):\n"
        "            self.state.move(trial, Step.RETRY, cause)\n"
        "            return\n",
        "",
        "tests/resume/test_resume_order.py",
    ),
    (
        "minitune/execution/replay.py",
        "                self._choose(trial, choice)\n            self._bring_forward()\n",
        "                self._choose(trial, choice)\n",
        "tests/resume/test_resume_order.py",
    ),
    (
        "minitune/execution/replay.py",
        'max(maker.ids.count, record["number"] + 1)',
        'max(maker.ids.count, record["number"])',
        "tests/controller/test_driver_resume.py",
    ),
    (
        "minitune/execution/replay.py",
        "        if decision == STOP and metrics.get(DONE):  # not if an interrupt was to stop it\n",
        "        if decision == STOP:\n",
        "tests/controller/test_driver_resume.py tests/resume/test_cut_journals.py",
    ),
    (
        "minitune/execution/replay.py",
        "        self._cut_off.discard(trial.trial_id)\n",
        "",
        "tests/resume/test_resume_order.py",
    ),
    (
        "minitune/execution/reuse.py",
        "        if trial.attempt > 1 or trial.report_count:\n            return None\n",
        "",
        "tests/search/test_filters.py tests/resume",
    ),
    (
        "minitune/execution/run_lock.py",
        "started is not None and not abs(started - self.start_time) > _CLOCK_STEP_S",
        "started is not None",
        "tests/storage/test_run_lock.py",
    ),
    (
        "minitune/execution/run_lock.py",
        "            if other is not None and other.holder is not None and other.holder.pid == "
        "os.getpid():\n"
        "                raise _locked(self.path, other.holder)\n",
        "",
        "tests/storage/test_run_lock.py",
    ),
    (
        "minitune/execution/run_lock.py",
        "    if _read_holder(aside) != found:\n"
        "        os.replace(aside, path)\n"
        "        raise _locked(path, _read_holder(path))\n",
        "",
        "tests/storage/test_run_lock.py",
    ),
    (
        "minitune/execution/run_overview.py",
        "            waiting = {trial_id: PENDING for trial_id, status in self.statuses.items() "
        "if status == RUNNING}\n"
        "            self.statuses.update(waiting)\n",
        "",
        "tests/commands/test_looking.py tests/entry",
    ),
    (
        "minitune/execution/run_overview.py",
        "        return reason is None or not (reason == records.FINISHED or reason.startswith(records.ENDED))",
        "        return reason is None or reason != records.FINISHED",
        "tests/entry tests/commands/test_looking.py tests/commands/test_again.py",
    ),
    (
        "minitune/execution/setbacks.py",
        "        self._in_row.pop(trial_id, None)\n",
        "",
        "tests/controller/test_setbacks.py",
    ),
    (
        "minitune/execution/setbacks.py",
        "        self._restarts.clear()\n",
        "",
        "tests/controller/test_setbacks.py",
    ),
    (
        "minitune/execution/setbacks.py",
        "        if now_s >= self._not_before_s:\n",
        "        if True:\n",
        "tests/controller/test_setbacks.py",
    ),
    (
        "minitune/execution/simulation.py",
        "_Saved(actor.position, copy.deepcopy(actor.state))",
        "_Saved(actor.position, actor.state)",
        "tests/simulation tests/controller/test_populations_simulated.py",
    ),
    (
        "minitune/execution/simulation.py",
        "            spent_s = seconds * actor.rng.random()\n            usage.training_s += spent_s\n",
        "            spent_s = seconds * actor.rng.random()\n",
        "tests/simulation",
    ),
    (
        "minitune/execution/storage.py",
        "self.state_files(component)[STATES_KEPT:]",
        "self.state_files(component)[STATES_KEPT + 1 :]",
        "tests/storage/test_storage.py",
    ),
    (
        "minitune/execution/storage.py",
        '            entry = file.read().rpartition("Failure # ")[2]',
        '            entry = file.read().partition("Failure # ")[2]',
        "tests/storage/test_storage.py tests/controller/test_driver_failures.py",
    ),
    (
        "minitune/execution/storage.py",
        "    real, real_top = os.path.realpath(path), os.path.realpath(top)",
        "    real, real_top = os.path.abspath(path), os.path.abspath(top)",
        "tests/storage/test_storage.py",
    ),
    (
        "minitune/execution/storage.py",
        'name.partition(".")[0].rstrip().upper() in _DEVICE_NAMES',
        "name.upper() in _DEVICE_NAMES",
        "tests/storage/test_storage.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "        self._state.let_go(live)\n        self._deadlines.forget(live.actor_id)\n",
        "        self._state.let_go(live)\n",
        "tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "    return decision if mine >= others else other",
        "    return decision if mine > others else other",
        "tests/controller/test_driver_pausing.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "                self._change_resources(live.trial, decision.resources)",
        "                pass",
        "tests/controller/test_driver_limits.py tests/controller/test_driver_pausing.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "(refused and len(trial.checkpoints) > 1)",
        "refused",
        "tests/controller/test_setbacks.py tests/controller/test_driver_failures.py "
        "tests/faults/test_faults_workers.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "            refused = False\n",
        "",
        "tests/controller/test_setbacks.py tests/controller/test_driver_failures.py "
        "tests/faults/test_faults_workers.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        '(request.verb == "stop" or not self._state.end_reason)',
        "True",
        "tests/controller/test_driver_stopping.py tests/controller/test_driver_storm_properties.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "        if self._state.interrupted and not live.ends_by_itself:\n",
        "        if self._state.interrupted:\n",
        "tests/controller/test_driver_stopping.py tests/controller/test_driver_resume.py",
    ),
    (
        "minitune/execution/trial_actions.py",
        "        self._recorder.exploit(trial, donation.donor, donation.record, config, reason)\n"
        "        self._state.donations[trial.trial_id] = donation\n"
        "        live = self._state.live.get(trial.actor_id)\n"
        "        if live is not None:\n"
        "            live.idle = False\n"
        "            self.let_go(live)\n",
        "        self._state.donations[trial.trial_id] = donation\n"
        "        live = self._state.live.get(trial.actor_id)\n"
        "        if live is not None:\n"
        "            live.idle = False\n"
        "            self.let_go(live)\n"
        "        self._recorder.exploit(trial, donation.donor, donation.record, config, reason)\n"
        "        if live is not None:\n",
        "tests/controller/test_populations.py tests/controller/test_driver_order.py",
    ),
    (
        "minitune/execution/trial_queue.py",
        "            firsts.sort(key=lambda entry: entry[0])\n",
        "            pass\n",
        "tests/resources/test_fairness.py tests/controller/test_driver_order.py",
    ),
    (
        "minitune/execution/trust.py",
        '    elif mode & stat.S_IWOTH:\n        reason = "everybody can write to it"\n',
        "",
        "tests/faults/test_faults_security.py tests/storage/test_storage.py",
    ),
    (
        "minitune/execution/trust.py",
        "        for name in files.names(objects):\n            _check_owner(os.path.join(objects, name))\n",
        "",
        "tests/storage/test_storage.py tests/faults/test_faults_security.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            self._state.live.pop(event.actor_id)\n            self._deadlines.forget(event.actor_id)\n",
        "            self._state.live.pop(event.actor_id)\n",
        "tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        self._deadlines.end(live.actor_id, REPORT)\n        if report.metrics is None:",
        "        if report.metrics is None:",
        "tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            return\n        self._apply(0)\n",
        "            return\n",
        "tests/faults/test_faults_timeouts.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        decision = stronger(decision, live.requested)\n        if decision != STOP and",
        "        if decision != STOP and",
        "tests/controller/test_driver_order.py tests/controller/test_driver_pausing.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            return False  # its own state is given up",
        "            pass",
        "tests/controller/test_populations.py tests/controller/test_driver_pausing.py "
        "tests/controller/test_driver_order.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "(config.checkpoint_at_end or self._state.interrupted)",
        "config.checkpoint_at_end",
        "tests/controller/test_driver_resume.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)\n"
        "        self._actions.release_donation(trial)  # not before: it may read those files, "
        "or fail and need them again\n",
        "        self._actions.release_donation(trial)\n"
        "        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)\n",
        "tests/controller/test_populations.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        return self._failed_restores[trial.trial_id] <= self._settings.free_restore_failures",
        "        return self._failed_restores[trial.trial_id] < self._settings.free_restore_failures",
        "tests/entry/test_run.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        self._failed_restores.pop(live.trial.trial_id, None)\n",
        "",
        "tests/entry/test_run.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "self._end_deadline_s = self._executor.now() + self._settings.grace_s",
        "self._end_deadline_s = self._executor.now()",
        "tests/controller/test_driver_resume.py tests/controller/test_driver_stopping.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "        if self._saves_at_end(trial) and not is_saved:\n",
        "        if not is_saved:\n",
        "tests/resume/test_cut_journals.py tests/controller/test_driver_resume.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "            self._recorder.worker_is_gone(trial)\n",
        "",
        "tests/runs/test_deaths.py tests/faults/test_faults_workers.py",
    ),
    (
        "minitune/execution/tune_controller.py",
        "                self._recorder.worker_is_gone(stopped)",
        "                pass",
        "tests/runs/test_hostile_trials.py tests/controller/test_driver_checkpoints.py",
    ),
    (
        "minitune/execution/waiting_line.py",
        "            if is_earlier and not has_room(group.request):\n",
        "            if is_earlier:\n",
        "tests/resources/test_fairness.py",
    ),
    (
        "minitune/execution/waiting_line.py",
        "            if overtaken >= PATIENCE and",
        "            if overtaken > PATIENCE and",
        "tests/resources/test_fairness.py",
    ),
    # -- experiment ----------------------------------------------------------------------------------------------------
    (
        "minitune/experiment/best.py",
        '(value > best[0] if mode == "max" else value < best[0])',
        '(value >= best[0] if mode == "max" else value <= best[0])',
        "tests/results/test_results.py",
    ),
    (
        "minitune/experiment/best.py",
        '    statistic = mode if scope == "all" else scope\n',
        '    statistic = "max" if scope == "all" else scope\n',
        "tests/results tests/controller/test_driver_results.py",
    ),
    (
        "minitune/experiment/lifecycle.py",
        "    Phase.TERMINATED: {Step.REVIVE: Phase.QUEUED},\n    Phase.ERROR: {Step.REVIVE: Phase.QUEUED},\n",
        "    Phase.TERMINATED: {},\n    Phase.ERROR: {Step.REVIVE: Phase.QUEUED},\n",
        "tests/resume/test_resume_choices.py",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "            if value > known[0] or known[0] != known[0]:\n",
        "            if value > known[0]:\n",
        "tests/results/test_metric_analysis.py",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "        known[4] = [*known[4], *column][-_WINDOW:]\n",
        "        known[4] = list(column[-_WINDOW:])\n",
        "tests/results/test_metric_analysis.py",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "    recent = last[-5:]\n",
        "    recent = last[:5]\n",
        "tests/results/test_metric_analysis.py",
    ),
    (
        "minitune/experiment/metric_analysis.py",
        "        return not isinstance(value, bool)\n",
        "        return True\n",
        "tests/results/test_metric_analysis.py",
    ),
    (
        "minitune/experiment/tags.py",
        '        return f"{float(value):.4g}"',
        '        return f"{float(value):.3g}"',
        "tests/search tests/controller/test_driver_disk.py",
    ),
    (
        "minitune/experiment/trial.py",
        "            self.analysis = to.analysis.copy()\n        else:",
        "            self.analysis = to.analysis\n        else:",
        "tests/controller/test_driver_failures.py",
    ),
    (
        "minitune/experiment/trial.py",
        "KeptCheckpoint(record, self.report_count, self.last_result, self.analysis.copy())\n        self.checkpoints",
        "KeptCheckpoint(record, self.report_count, self.last_result, self.analysis)\n        self.checkpoints",
        "tests/controller/test_driver_failures.py tests/controller/test_driver_checkpoints.py",
    ),
    (
        "minitune/experiment/trial.py",
        "        self.next_checkpoint = record.number + 1\n",
        "        self.next_checkpoint = len(self.checkpoints)\n",
        "tests/controller/test_driver_failures.py tests/faults/test_faults_files_runs.py",
    ),
    # -- integration ---------------------------------------------------------------------------------------------------
    (
        "minitune/integration/_metrics.py",
        "        return self.frequency > 0 and (round_number + 1) % self.frequency == 0",
        "        return self.frequency > 0 and round_number % self.frequency == 0",
        "tests/integration",
    ),
    (
        "minitune/integration/_metrics.py",
        "    missing = [name for name in names.values() if name not in logged]\n",
        "    missing = [name for name in names if name not in logged]\n",
        "tests/integration",
    ),
    (
        "minitune/integration/pytorch_lightning.py",
        "        if not trainer.sanity_checking:\n            self.handle(trainer)",
        "        self.handle(trainer)",
        "tests/integration/test_lightning_callback.py",
    ),
    (
        "minitune/integration/pytorch_lightning.py",
        "        if not metrics:\n            return\n",
        "",
        "tests/integration/test_lightning_callback.py",
    ),
    # -- logger --------------------------------------------------------------------------------------------------------
    (
        "minitune/logger/append_files.py",
        "        if whole < size:\n            os.ftruncate(descriptor, whole)\n",
        "",
        "tests/plugins/test_loggers.py tests/faults/test_faults_files_plain.py",
    ),
    (
        "minitune/logger/append_files.py",
        "            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)\n            raise\n",
        "            raise\n",
        "tests/plugins/test_loggers.py",
    ),
    (
        "minitune/logger/append_files.py",
        "        if len(self._open) >= self._limit:\n            os.close(self._open.pop(next(iter(self._open))))\n",
        "",
        "tests/plugins/test_loggers.py",
    ),
    (
        "minitune/logger/csv.py",
        "        return self.rows >= 2 * self.rewritten_at or len(self.late) >= _MAX_LATE_ROWS",
        "        return True",
        "tests/plugins/test_loggers.py",
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
        "tests/plugins/test_loggers.py",
    ),
    (
        "minitune/logger/json.py",
        "            replace_file(pickle_path, data, mode=0o600)",
        "            replace_file(pickle_path, data)",
        "tests/plugins/test_loggers.py tests/faults/test_faults_security.py",
    ),
    (
        "minitune/logger/json.py",
        "        elif os.path.exists(pickle_path):  # that of an earlier configuration\n"
        "            os.unlink(pickle_path)\n",
        "",
        "tests/plugins/test_loggers.py",
    ),
    (
        "minitune/logger/strict_json.py",
        '        return None if value != value else "Infinity" if value > 0 else "-Infinity"',
        '        return None if value != value else "Infinity"',
        "tests/plugins/test_loggers.py",
    ),
    (
        "minitune/logger/strict_json.py",
        "    if depth >= MAX_DEPTH or id(value) in parents:\n",
        "    if depth >= MAX_DEPTH:\n",
        "tests/plugins/test_loggers.py tests/plugins/test_arrays_in_files.py",
    ),
    # -- schedulers ----------------------------------------------------------------------------------------------------
    (
        "minitune/schedulers/_explore.py",
        "    new = min(max(place + step, 0), len(values) - 1)\n",
        "    new = (place + step) % len(values)\n",
        "tests/plugins/test_explore.py",
    ),
    (
        "minitune/schedulers/_explore.py",
        "        return min(max(value, domain.lower), domain.upper)",
        "        return max(value, domain.lower)",
        "tests/plugins/test_explore.py",
    ),
    (
        "minitune/schedulers/_population.py",
        "        ends = self.size_of_ends()\n"
        "        return ends > 0 and (self.rank(member) > len(self) - ends or member.is_worst)\n",
        "        ends = self.size_of_ends()\n        return ends > 0 and self.rank(member) > len(self) - ends\n",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/_population.py",
        "min(math.ceil(len(self) * self.fraction), len(self) // 2)",
        "math.ceil(len(self) * self.fraction)",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/_population.py",
        "        member.history = [seen for seen in donor.history if seen[0] <= donor.last_turn]\n",
        "        member.history = list(donor.history)\n",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "        if index <= standing.level:\n            return None\n",
        "        if index < standing.level:\n            return None\n",
        "tests/plugins/test_asha.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "        passes = rank <= keep and entry.loss < math.inf\n",
        "        passes = rank <= keep\n",
        "tests/plugins/test_asha.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "len(level) // self._eta if self._promotes else -(-len(level) // self._eta)",
        "len(level) // self._eta",
        "tests/plugins/test_asha.py tests/plugins/test_asha_properties.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        '        version, numbers, gauss = state["rng"]\n'
        "        self._rng.setstate((version, tuple(numbers), gauss))\n",
        "",
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        '        self._arrivals = state["arrivals"]\n',
        "",
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "        if at is not None and at < self._max_t:\n"
        "            self._record(trial.trial_id, self._standing_of(trial), at, result)\n",
        "",
        "tests/plugins/test_asha.py",
    ),
    (
        "minitune/schedulers/async_hyperband.py",
        "                self._standings[trial.trial_id].promoted = True\n",
        "",
        "tests/plugins/test_asha.py",
    ),
    (
        "minitune/schedulers/hyperband.py",
        "        if member.entry is not None:\n"
        '            return Decision(decision.PAUSE, "back at the level where it waits for the others")\n',
        "",
        "tests/plugins/test_hyperband.py tests/controller/test_driver_halving.py",
    ),
    (
        "minitune/schedulers/hyperband.py",
        "            trial_id: bracket for bracket in self._brackets for trial_id in "
        "(*bracket.members, *bracket.leaving)\n",
        "            trial_id: bracket for bracket in self._brackets for trial_id in bracket.members\n",
        "tests/plugins/test_saved_states.py tests/plugins/test_hyperband.py",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        "        if curve.best >= median - _ROUNDING * max(1.0, abs(median)):\n",
        "        if curve.best > median:\n",
        "tests/plugins/test_median_stopping_rule.py",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        "        if at <= before:\n            return curve\n",
        "",
        "tests/plugins/test_median_stopping_rule.py",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        "            if at >= self._grace_period:\n                total, count = total + value, count + 1\n",
        "            total, count = total + value, count + 1\n",
        "tests/plugins/test_median_stopping_rule.py",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        '        self._spared, self._slices = set(state["spared"]), dict(state["slices"])\n',
        "",
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/median_stopping_rule.py",
        "    hole = len(ordered) if own is None else bisect_left(ordered, own)\n"
        "    count = len(ordered) - (own is not None)\n",
        "    hole = len(ordered)\n    count = len(ordered)\n",
        "tests/plugins/test_median_stopping_rule.py",
    ),
    (
        "minitune/schedulers/pb2.py",
        "            del self._gains[:-_WINDOW]\n",
        "",
        "tests/plugins/test_pb2.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        "other is not member and not other.is_worst and self._can_give(context, other)",
        "other is not member and self._can_give(context, other)",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        "            trial = self._find(context, trial_id)\n            if trial is None or trial.is_finished():\n",
        "            trial = self._trials.get(trial_id)\n            if trial is None or trial.is_finished():\n",
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        '        version, numbers, gauss = state["rng"]\n'
        "        self._rng.setstate((version, tuple(numbers), gauss))\n",
        "",
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        '        self._failed, self._arrived = set(state["failed"]), set(state["arrived"])\n',
        '        self._failed, self._arrived = set(state["failed"]), set()\n',
        "tests/plugins/test_saved_states.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        "        if at < self._burn_in:\n            return CONTINUE\n",
        "",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        'getattr(context, "is_replaying", False)',
        "False",
        "tests/controller/test_populations.py",
    ),
    (
        "minitune/schedulers/pbt.py",
        "        config = self._customized(config)\n",
        "",
        "tests/plugins/test_pbt.py",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "        return min(share + (place < left), self._cap())",
        "        return min(share + (place <= left), self._cap())",
        "tests/plugins/test_resource_changing.py",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "        free = _count(unit, {name: pool[name] - used.get(name, 0) for name in _HANDED_OUT})",
        "        free = _count(unit, pool)",
        "tests/plugins/test_resource_changing.py",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "        return cap if max(growing, key=standing, default=None) is at.trial else 0",
        "        return cap if max(at.trials, key=standing, default=None) is at.trial else 0",
        "tests/plugins/test_resource_changing.py",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        "        if chosen is not None and chosen.status == PAUSED:\n            return chosen\n",
        "        if chosen is not None:\n            return chosen\n",
        "tests/plugins/test_resource_changing.py",
    ),
    (
        "minitune/schedulers/resource_changing_scheduler.py",
        '        """See `TrialScheduler.on_trial_remove`."""\n        self._forget(trial)\n',
        '        """See `TrialScheduler.on_trial_remove`."""\n',
        "tests/plugins/test_resource_changing.py",
    ),
    # -- search --------------------------------------------------------------------------------------------------------
    (
        "minitune/search/_observations.py",
        '        return (-observation.step, *key) if self._early_stop == "depth" and key != WORST else key',
        '        return (observation.step, *key) if self._early_stop == "depth" and key != WORST else key',
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/_observations.py",
        "                if not number < math.inf:\n                    return WORST\n",
        "",
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/_observations.py",
        "            if each.has_failed:\n                found[each.number] = _rank(WORST, each)\n            elif",
        "            if",
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/basic_variant.py",
        "0 < self.max_concurrent <= len(self._live) - len(self._paused)",
        "0 < self.max_concurrent <= len(self._live)",
        "tests/search/test_basic_variant.py",
    ),
    (
        "minitune/search/basic_variant.py",
        "        for number, (table, _) in enumerate(self._tables):\n"
        '            table.reseed(f"{self._seed}/{number}")\n',
        '        for table, _ in self._tables:\n            table.reseed(f"{self._seed}/0")\n',
        "tests/search/test_basic_variant.py tests/entry/test_experiments.py",
    ),
    (
        "minitune/search/concurrency_limiter.py",
        "        if len(self._running | self._members.keys()) >= self.max_concurrent:\n",
        "        if len(self._running) >= self.max_concurrent:\n",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/concurrency_limiter.py",
        "            self._running.discard(trial_id)\n            self._paused.add(trial_id)\n",
        "            self._paused.add(trial_id)\n",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/concurrency_limiter.py",
        "        self._is_fed = False\n        self._close_batch()\n        self.searcher.on_search_end()",
        "        self.searcher.on_search_end()",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/equality.py",
        "        return str(int(value)) if value.is_integer() else repr(float(value))",
        "        return repr(float(value))",
        "tests/search/test_parameters.py tests/search/test_filters.py tests/search/test_space_properties.py",
    ),
    (
        "minitune/search/equality.py",
        '        members = sorted(f"{_canonical(key)}:{_canonical(member)}" for key, member in dict.items(value))\n',
        '        members = [f"{_canonical(key)}:{_canonical(member)}" for key, member in dict.items(value)]\n',
        "tests/search",
    ),
    (
        "minitune/search/filtered_searcher.py",
        "            if verdict is not Verdict.ADMITTED and name is not None:\n"
        "                self.searcher.on_suggestion_refused(name)\n",
        "            pass\n",
        "tests/search/test_filters.py",
    ),
    (
        "minitune/search/filtered_searcher.py",
        "            if not error and is_real(value):\n",
        "            if is_real(value):\n",
        "tests/search/test_filters.py",
    ),
    (
        "minitune/search/filters.py",
        "self._outside += 1  # a point that the user has given: those of the space are still to be tried",
        "pass",
        "tests/search/test_filters.py tests/search/test_filters_properties.py",
    ),
    (
        "minitune/search/filters.py",
        "        return len(self._is_admitted) - self._outside >= self._size",
        "        return len(self._is_admitted) - self._outside > self._size",
        "tests/search/test_filters.py",
    ),
    (
        "minitune/search/repeater.py",
        "error=group.error_count == self.repeat",
        "error=group.error_count > 0",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/repeater.py",
        "        config: dict[str, Any] = copy_tree(group.config)\n",
        "        config: dict[str, Any] = group.config\n",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/repeater.py",
        "            mean[name] = math.fsum(values) / len(values) if values else math.nan",
        "            mean[name] = math.fsum(values) / self.repeat if values else math.nan",
        "tests/search/test_searcher_wrappers.py",
    ),
    (
        "minitune/search/search_generator.py",
        "        if trial_id in self._live:\n"
        "            self._live.discard(trial_id)\n"
        "            self.searcher.on_trial_complete(trial_id, result=result, error=error)\n",
        "        self._live.discard(trial_id)\n"
        "        self.searcher.on_trial_complete(trial_id, result=result, error=error)\n",
        "tests/search/test_search_generator.py",
    ),
    (
        "minitune/search/search_generator.py",
        "            self.on_trial_complete(trial_id, error=True)\n            raise\n",
        "            raise\n",
        "tests/search/test_search_generator.py",
    ),
    (
        "minitune/search/search_generator.py",
        '        self._count, self._seed, self._live = state["count"], state["seed"], set(state["live"])\n',
        '        self._count, self._seed = state["count"], state["seed"]\n',
        "tests/search/test_search_generator.py",
    ),
    (
        "minitune/search/search_generator.py",
        "            self._experiment.num_samples += samples\n        self._finished = False\n",
        "            self._experiment.num_samples += samples\n",
        "tests/search/test_search_generator.py tests/resume/test_resume_choices.py",
    ),
    (
        "minitune/search/study.py",
        "        return max(self._scored(), key=lambda found: found[0], default=([], None))[1]",
        "        return min(self._scored(), key=lambda found: found[0], default=([], None))[1]",
        "tests/search/test_study.py",
    ),
    (
        "minitune/search/study.py",
        "                other != scores and all(b >= a for a, b in zip(scores, other, "
        "strict=True)) for other, _ in scored",
        "                other != scores and all(b > a for a, b in zip(scores, other, "
        "strict=True)) for other, _ in scored",
        "tests/search/test_study.py",
    ),
    (
        "minitune/search/study.py",
        "                config: dict[str, Any] = copy_tree(trial.config)\n",
        "                config: dict[str, Any] = trial.config\n",
        "tests/search/test_study.py",
    ),
    (
        "minitune/search/study.py",
        "        trial, _ = self._open.pop(self._find(config))\n",
        "        trial, _ = self._open[self._find(config)]\n",
        "tests/search/test_study.py",
    ),
    (
        "minitune/search/tpe.py",
        "        if result is None and not error and not observation.step:\n",
        "        if result is None and not error:\n",
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/tpe.py",
        "        self.on_trial_complete(trial_id)  # a name that is used again stands for a new trial\n",
        "",
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/tpe.py",
        "            is_ready = len(ranks) >= self.n_initial_points\n",
        "            is_ready = len(ranks) > self.n_initial_points + 5\n",
        "tests/search/test_tpe.py",
    ),
    (
        "minitune/search/tpe.py",
        '        self._points_given, self._has_budgets = state["points_given"], state["has_budgets"]\n',
        '        self._has_budgets = state["has_budgets"]\n',
        "tests/search/test_tpe.py tests/search/test_searcher_contract.py",
    ),
    (
        "minitune/search/variant_generator.py",
        "            if self._constant_grid_search:\n                plan",
        "            if False:\n                plan",
        "tests/search/test_variants.py tests/search/test_basic_variant.py",
    ),
    (
        "minitune/search/variant_generator.py",
        "        index, digit = divmod(index, len(grid))\n",
        "        digit = index % len(grid)\n",
        "tests/search/test_variants.py",
    ),
    (
        "minitune/search/variant_generator.py",
        "            for _ in range(at.branch):\n                next(self._branches, None)\n",
        "",
        "tests/search/test_variants.py tests/search/test_basic_variant.py",
    ),
    (
        "minitune/search/variant_generator.py",
        "        stands_for_several = last.branch > 0 or self._branches is not None",
        "        stands_for_several = last.branch > 0",
        "tests/search/test_filters.py tests/search/test_filters_properties.py",
    ),
    # -- stopper -------------------------------------------------------------------------------------------------------
    (
        "minitune/stopper/dict_stopper.py",
        "            except Exception as error:  # whatever a comparison of foreign types or "
        "arrays raises\n"
        '                self._warn_once(name, f"its value {type(value).__name__} does not '
        'compare ({error})")\n',
        '            except Exception:\n                return f"{name} was reached"\n',
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/experiment_plateau.py",
        "        if value is None or value != value:\n",
        "        if value is None:\n",
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/experiment_plateau.py",
        '        insort(self._losses, value if self._mode == "min" else -value)\n',
        "        insort(self._losses, value)\n",
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/maximum_iteration.py",
        "        return count >= self._max_iter",
        "        return count > self._max_iter",
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/timeout.py",
        '{**self.__dict__, "_last_check_s": None}',
        "dict(self.__dict__)",
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/timeout.py",
        "        if self._last_check_s is None and not start:\n            return\n",
        "",
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/trial_plateau.py",
        '        return value <= self._threshold if self._mode == "min" else value >= self._threshold',
        '        return value >= self._threshold if self._mode == "min" else value <= self._threshold',
        "tests/plugins/test_stoppers.py",
    ),
    (
        "minitune/stopper/trial_plateau.py",
        "        if count < self._grace_period or len(last)",
        "        if len(last)",
        "tests/plugins/test_stoppers.py",
    ),
    # -- testing -------------------------------------------------------------------------------------------------------
    (
        "minitune/testing/_smoke.py",
        "    failed = [(result, result.error) for result in grid if result.error is not None]\n",
        "    failed = [(result, result.error) for result in grid[:1] if result.error is not None]\n",
        "tests/testing/test_smoke.py",
    ),
    (
        "minitune/testing/_smoke.py",
        "    if not has_reported:\n        what",
        "    if has_reported:\n        what",
        "tests/testing/test_smoke.py",
    ),
    (
        "minitune/testing/leftovers.py",
        "                os.environ[name] = before[name]\n            else:\n                del os.environ[name]\n",
        "                os.environ[name] = before[name]\n",
        "tests/testing/test_smoke.py",
    ),
    (
        "minitune/testing/leftovers.py",
        "        new = list(_children() - self._children)\n        if new:\n            psutil.wait_procs",
        "        new = []\n        if new:\n            psutil.wait_procs",
        "tests/testing/test_smoke.py",
    ),
    (
        "minitune/testing/scheduler_contract.py",
        "(math.nan, math.inf, -math.inf)[len(bad) % 3]",
        "(math.inf, -math.inf)[len(bad) % 2]",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/scheduler_contract.py",
        '        assert after == before, "on_trial_result has changed the result or the configuration"\n',
        "",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/scheduler_contract.py",
        '        assert chosen is again, "choose_trial_to_run gives another answer when it is asked again"\n',
        "",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/searcher_contract.py",
        '                assert fits(domain, get_value(config, path)), f"{config} is not in the space, see {path}"\n',
        "                assert get_value(config, path) is not None\n",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/searcher_contract.py",
        "        if self.is_random:\n            assert",
        "        if not self.is_random:\n            assert",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/searcher_contract.py",
        "        assert told[0] == told[1]\n",
        "",
        "tests/plugins/test_contracts.py",
    ),
    (
        "minitune/testing/searcher_contract.py",
        "        assert random.getstate() == state\n        if",
        "        if",
        "tests/plugins/test_contracts.py",
    ),
    # -- trainable -----------------------------------------------------------------------------------------------------
    (
        "minitune/trainable/auto_fields.py",
        "        self.time_total_s = float(_number(metrics.get(TIME_TOTAL_S), 0.0))\n",
        "        self.time_total_s = 0.0\n",
        "tests/trainable/test_class_trainable.py tests/trainable/test_report.py tests/controller",
    ),
    (
        "minitune/trainable/auto_fields.py",
        "            self.timesteps_total = (self.timesteps_total or 0) + steps\n"
        "            self.timesteps_since_restore += steps\n",
        "            self.timesteps_total = (self.timesteps_total or 0) + steps\n",
        "tests/trainable/test_report.py tests/trainable/test_class_trainable.py",
    ),
    (
        "minitune/trainable/function_runner.py",
        "            if pull is None or pull.done():\n                self._late_error = error\n",
        "            pass\n",
        "tests/trainable/test_function_runner.py",
    ),
    (
        "minitune/trainable/function_runner.py",
        "    if isinstance(error, SystemExit):\n        return error.code is None or error.code == 0\n",
        "    if isinstance(error, SystemExit):\n        return True\n",
        "tests/trainable/test_function_runner.py tests/controller/test_driver_failures.py",
    ),
    (
        "minitune/trainable/function_runner.py",
        "        if value is not None:\n"
        '            self._session.report(self._as_metrics(value, "returned"), has_returned=True)',
        '        if value:\n            self._session.report(self._as_metrics(value, "returned"), has_returned=True)',
        "tests/trainable/test_function_runner.py",
    ),
    (
        "minitune/trainable/function_runner.py",
        "            except BaseException as raised:\n                error = raised\n\n    def _as_metrics",
        "            except Exception as raised:\n                error = raised\n\n    def _as_metrics",
        "tests/trainable/test_function_runner.py",
    ),
    (
        "minitune/trainable/metric_check.py",
        '        verb = "loaded again"\n        pickle.loads(data)\n',
        "",
        "tests/trainable/test_report.py tests/faults/test_faults_serialization.py",
    ),
    (
        "minitune/trainable/metric_check.py",
        "    if size_bytes > LIMIT_BYTES:\n",
        "    if size_bytes > 2 * LIMIT_BYTES:\n",
        "tests/trainable/test_report.py tests/faults/test_faults_serialization.py",
    ),
    (
        "minitune/trainable/seeding.py",
        '    again = f"/failures/{failures}" if failures else ""\n',
        '    again = ""\n',
        "tests/trainable/test_seeding.py",
    ),
    (
        "minitune/trainable/session.py",
        "            if self.check_stopping is not None:\n"
        "                self.check_stopping()  # not after the copy: nobody would ever hear of it\n",
        "",
        "tests/trainable/test_report.py tests/trainable/test_function_runner.py",
    ),
    (
        "minitune/trainable/session.py",
        "        self.hand_over(Report(result, record, bool(result[DONE]), has_returned))\n"
        "        self.fields.begin()\n",
        "        self.hand_over(Report(result, record, bool(result[DONE]), has_returned))\n",
        "tests/trainable/test_report.py",
    ),
    (
        "minitune/trainable/trainable.py",
        "        self._tune_last_result = {}\n"
        "        self._tune_fields = self._tune_new_fields()\n"
        "        return True\n",
        "        self._tune_last_result = {}\n        return True\n",
        "tests/trainable/test_class_trainable.py",
    ),
    (
        "minitune/trainable/trainable.py",
        "        if not self.reset_config(copy.deepcopy(new_config)):\n            return False\n",
        "        self.reset_config(copy.deepcopy(new_config))\n",
        "tests/trainable/test_class_trainable.py tests/controller/test_driver_limits.py",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        self._session.seed_generators(metrics.get(TRAINING_ITERATION, 0))\n"
        "        self._own().restore_from(path, metrics)\n",
        "        self._own().restore_from(path, metrics)\n",
        "tests/trainable/test_seeding.py",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        except BaseException:\n"
        "            import shutil\n"
        "\n"
        "            shutil.rmtree(directory, ignore_errors=True)\n"
        "            raise\n"
        "        self._session.last_record = record\n",
        "        except BaseException:\n            raise\n        self._session.last_record = record\n",
        "tests/trainable/test_checkpoint.py",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        if not self._runner.has_ended:\n            return False\n",
        "",
        "tests/trainable/test_function_runner.py tests/trainable/test_reuse.py tests/execution",
    ),
    (
        "minitune/trainable/trial_actor.py",
        "        result[CONFIG] = None  # the driver knows it, so it need not cross the pipe "
        "with every report\n"
        "        return Report",
        "        return Report",
        "tests/trainable/test_class_trainable.py tests/trainable/test_large_values.py",
    ),
    # -- utils ---------------------------------------------------------------------------------------------------------
    (
        "minitune/utils/diagnosis.py",
        "        if not self.disable and duration_s > self.threshold:\n",
        "        if duration_s > self.threshold:\n",
        "tests/surface/test_utils.py",
    ),
    (
        "minitune/utils/gpu.py",
        "        if share <= target_util:\n",
        "        if share < target_util:\n",
        "tests/surface/test_utils.py",
    ),
    (
        "minitune/utils/mock_trainable.py",
        "(self._fails_again or not self.restored)",
        "not self.restored",
        "tests/surface/test_utils.py tests/surface",
    ),
    (
        "minitune/utils/nested.py",
        "    return deep_update(copy.deepcopy(d1), d2, new_keys_allowed=True)",
        "    return deep_update(d1, d2, new_keys_allowed=True)",
        "tests/surface/test_utils.py",
    ),
    (
        "minitune/utils/nested.py",
        "            allowed = new_keys_allowed or key in (allow_new_subkey_list or ())\n",
        "            allowed = new_keys_allowed\n",
        "tests/surface/test_utils.py",
    ),
]

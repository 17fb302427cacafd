// The language of `minitune ls --filter`, see `conditions.py`: `name < value`, words and numbers of trials, joined by spaces or `and`. A name is
// that of a column in any case, or its last part if that is unique. Other texts stand in quotes. One table of cases tests both
// readers.
class FilterError extends Error {}
const ORDERS = { __proto__: null, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
const SIGNS = { __proto__: null, ...ORDERS, "=": (a, b) => a === b, "==": (a, b) => a === b, "!=": (a, b) => a !== b };
// A column has a name, `get` for the value of a row, perhaps `told` for its cell, and `also`, further names. A parameter that
// is None has a value; another value that is null is missing.
const isThere = (column, value) => value !== undefined && value !== "" && !Number.isNaN(value) && (value !== null || Boolean(column.isParam));
const cellText = (column, row) => { const value = (column.told || column.get)(row); return isThere(column, value) ? text(value) : ""; };
function columnNamed(name, columns) {
  const lower = name.toLowerCase(), also = (one) => one.also || [];
  for (const fits of [(one) => one.name === name, (one) => also(one).includes(name),
    (one) => [one.name, ...also(one)].some((each) => each.toLowerCase() === lower), (one) => one.name.toLowerCase().endsWith(`/${lower}`)]) {
    const found = columns.filter(fits);
    if (found.length > 1 && found[0].name !== found[1].name) throw new FilterError(`${name} is ${found.map((one) => one.name).join(" or ")}: write more of its name`);
    if (found.length) return found[0];
  }
  throw new FilterError(`there is no column '${name}'; there are ${[...new Set(columns.map((one) => one.name))].join(", ")}`);
}
// The text of a word, or between quotes.
function textIn(token) {
  if (token.length > 1 && `"'`.includes(token[0])) return token.slice(1, -1);
  if (token in SIGNS) throw new FilterError(`a name is missing before ${token}`);
  if (/^(or|not|in|.*[(),!"'].*)$/i.test(token)) throw new FilterError(`${token} cannot be read: a filter is \`name < value\` and words, joined by spaces or \`and\`; other texts need quotes`);
  return token;
}
function numberIn(words) {
  if (/^[+-]?inf(inity)?$/i.test(words)) return words[0] === "-" ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(words) ? Number(words) : null;
}
// Compares numbers with a number, and texts in small letters. A missing value is equal to nothing.
function comparison(column, sign, words, there) {
  const limit = numberIn(words), isCounted = (value) => typeof value === "number" || typeof value === "boolean";
  // A text can only be compared with a column of numbers by mistake. An empty table would hide it.
  if (limit === null && there.length && there.every((value) => typeof value === "number")) throw new FilterError(`${column.name} holds numbers, and ${words} is none`);
  return (row) => {
    const value = column.get(row);
    if (!isThere(column, value)) return sign === "!=";
    if (limit !== null && isCounted(value)) return SIGNS[sign](Number(value), limit);
    if (sign in ORDERS && (limit !== null || isCounted(value))) return false;
    return SIGNS[sign](text(value).toLowerCase(), words.toLowerCase());
  };
}
// What a filter's words ask of rows, or null. Throws a FilterError with a sentence for what cannot be read.
function filterOf(words, columns, rows) {
  const tokens = words.match(/"[^"]*"|'[^']*'|[<>!=]=|[<>=]|[^\s<>=!"']+|\S/g) || [], tests = [];
  while (tokens.length) {
    const first = tokens.shift();
    if (first.toLowerCase() === "and") continue;
    if (!(tokens[0] in SIGNS)) {
      const word = textIn(first).toLowerCase(), sought = columns.filter((column) => !column.isUntold), trial = columns.find((column) => column.name === "trial");
      if (trial && /^\d+$/.test(first)) { tests.push((row) => trial.get(row) === Number(first)); continue; }
      tests.push((row) => sought.some((column) => cellText(column, row).toLowerCase().includes(word)));
      continue;
    }
    const sign = tokens.shift(), column = columnNamed(textIn(first), columns);
    if (!tokens.length || tokens[0] in SIGNS || tokens[0].toLowerCase() === "and") throw new FilterError(`a value is missing after ${first} ${sign}`);
    const value = textIn(tokens.shift()), there = rows.map((row) => column.get(row)).filter((one) => isThere(column, one));
    tests.push(comparison(column, sign, value, there));
  }
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}
// Reads a filter as `{ test }` and shows in `problem` what is wrong with it. Null if it cannot be read.
function readFilter(input, problem, columns, rows) {
  let found = null, wrong = "";
  try {
    found = { test: filterOf(input.value, columns, rows) };
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    wrong = error.message;
  }
  problem.textContent = wrong;
  problem.hidden = !problem.textContent;
  problem.classList.toggle("failed", Boolean(wrong));
  input.classList.toggle("wrong", Boolean(wrong));
  input.setAttribute("aria-invalid", String(Boolean(wrong)));
  return found;
}

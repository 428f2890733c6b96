// Environment of the run: model, options, libraries.

const SECTIONS = {
  model_info: "The model", judges: "Judges", options: "Options", library_versions: "Libraries", system_instruction: "System instruction",
  chat_template: "Chat template", notes: "Notes",
};

/** Words for the keys that are not words without their underscores. */
const KEY_WORDS = {
  apply_chat_template: "with the chat template", batch_tokens: "tokens per batch", bootstrap_iters: "bootstrap resamples",
  cache: "stored responses", compare: "compared with", dir: "folder of results", fewshot_as_multiturn: "few-shot examples as chat turns",
  gen_kwargs: "generation arguments", html: "HTML report", include_path: "folders of task files", inconclusive: "inconclusive gates",
  json: "JSON results", junit: "test cases in JUnit", latticeflow_snippet_timeout: "time limit of LatticeFlow code (s)", limit: "first documents only",
  max_cost: "largest cost", max_errors: "largest share of errors", max_requests: "most requests", min_overlap: "smallest overlap with a baseline",
  num_fewshot: "few-shot examples", platform: "operating system", pytest_evals_version: "pytest-model-evals version", python_files: "files of Python tasks",
  python_version: "Python version", repeatability: "repeated runs", sample: "random sample", save_baseline: "saved as baseline", stop: "early stopping",
  stop_error: "error rate of early stopping", write_out: "prompts shown",
};

const wordsOfKey = (name) => KEY_WORDS[name] ?? name.replaceAll("_", " ");

function environmentView() {
  const { made } = run.facts;
  const plain = Object.entries(made).filter(([name]) => !(name in SECTIONS));
  return h(
    "div.page",
    h("h1", "Run"),
    h("dl.facts", [["model", run.facts.model_name], ["exit code", run.facts.exit_code], ["time in the model", seconds(run.facts.model_seconds)], ...plain]
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [h("dt", wordsOfKey(name)), h("dd", String(value))])),
    Object.entries(SECTIONS).filter(([name]) => made[name]).map(([name, title]) => h("section", h("h2", title), valueShown(made[name], name === "options" || name === "model_info"))),
  );
}

/** A value; keys are names of ours, or those of models and libraries, which stay as they are. */
function valueShown(value, isOurs) {
  if (typeof value === "string") return block(value);
  if (Array.isArray(value)) return h("ul.plain", value.map((one) => h("li", String(one))));
  const known = Object.entries(value).filter(([, one]) => one !== null && one !== "" && one !== false && String(one) !== "" && JSON.stringify(one) !== "{}");
  return h("dl.facts", known.map(([name, one]) => [h("dt", isOurs ? wordsOfKey(name) : name), h("dd", isOurs && Array.isArray(one) ? one.join(", ") : typeof one === "object" ? h("code", JSON.stringify(one)) : String(one))]));
}

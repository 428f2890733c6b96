// Environment of the run: model, options, libraries.

const SECTIONS = {
  model_info: "The model", judges: "Judges", options: "Options", library_versions: "Libraries", system_instruction: "System instruction",
  chat_template: "Chat template", notes: "Notes",
};

function environmentView() {
  const { made } = run.facts;
  const plain = Object.entries(made).filter(([name]) => !(name in SECTIONS));
  return h(
    "div.page",
    h("h1", "Run"),
    h("dl.facts", [["model", run.facts.model_name], ["exit code", run.facts.exit_code], ["time in the model", seconds(run.facts.model_seconds)], ...plain]
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [h("dt", name.replaceAll("_", " ")), h("dd", String(value))])),
    Object.entries(SECTIONS).filter(([name]) => made[name]).map(([name, title]) => h("section", h("h2", title), valueShown(made[name], name === "options" || name === "model_info"))),
  );
}

/** A value; keys are names of ours, or those of models and libraries, which stay as they are. */
function valueShown(value, isOurs) {
  if (typeof value === "string") return block(value);
  if (Array.isArray(value)) return h("ul.plain", value.map((one) => h("li", String(one))));
  const known = Object.entries(value).filter(([, one]) => one !== null && one !== "" && one !== false && String(one) !== "" && JSON.stringify(one) !== "{}");
  return h("dl.facts", known.map(([name, one]) => [h("dt", isOurs ? name.replaceAll("_", " ") : name), h("dd", typeof one === "object" ? h("code", JSON.stringify(one)) : String(one))]));
}

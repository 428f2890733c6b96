// One document: what was asked, what came back, and what it was worth.

function documentPane(doc, whole) {
  const part = run.facts.parts[doc.task];
  const node = `${part?.node ?? doc.task}[${doc.id}]`;
  return h(
    "article.document",
    h("header", h("p.over", link("task", { name: doc.task }, doc.task)), h("h2", h("bdi", doc.id)), h("p.marks", marksOf(doc))),
    h("p.node-line", h("code.node", node), copyButton(node, "copy id"), copyButton(`pytest ${quoted(node)} -v`, "copy command", "run it again, with the same options")),
    whole.error ? h("section.trouble", h("h3", "Why it has no score"), block(whole.error)) : null,
    whole.excluded ? h("section.trouble", h("h3", "Why it is in no metric"), block(whole.excluded)) : null,
    answersOf(whole),
    beforeOf(whole),
    scoresOf(whole),
    exchangesOf(whole),
    promptsOf(whole),
    dataOf(doc, whole),
  );
}

function marksOf(doc) {
  const marks = [stateMark(doc.state)];
  if (doc.flags & REGRESSED) marks.push(h("span.mark.is-worse", h("span.sign", "▼"), "regressed"));
  if (doc.flags & IMPROVED) marks.push(h("span.mark.is-better", h("span.sign", "▲"), "improved"));
  if (doc.flags & TRUNCATED) marks.push(h("span.mark.is-warn", h("span.sign", "✂"), "prompt did not fit"));
  if (doc.flags & CUT_OFF) marks.push(h("span.mark.is-warn", h("span.sign", "✂"), "answer ended at its limit"));
  return marks;
}

/** Answers: choices beside each other, texts below each other. */
function answersOf(whole) {
  const groups = new Map();
  whole.asked.forEach((request, i) => {
    const key = request.kind === "choice" ? `choice ${request.prompt}` : `${request.kind} ${i}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ request, answers: whole.answers[i] ?? [], finish: whole.finish[i] });
  });
  return [...groups.values()].map((group) => {
    if (group[0].request.kind === "choice") return choicesOf(group, whole, groups.size > 1);
    if (group[0].request.kind === "text") return textOf(group[0], whole);
    return h("section", h("h3", "Log-probability of the text"), h("p.big", logprob(group[0].answers[0])));
  });
}

const logprob = (value) => (typeof value === "number" ? `${figure(value)} nats` : "no answer");

function choicesOf(group, whole, several) {
  const found = group.map(({ request, answers }) => ({ text: request.text, logprob: answers[0]?.[0] ?? null, greedy: answers[0]?.[1] === true }));
  const numbers = found.map((one) => one.logprob).filter((v) => v !== null);
  const best = numbers.length ? Math.max(...numbers) : null;
  const worst = numbers.length ? Math.min(...numbers, 0) * 1.08 : -1;
  const rows = found.map((one) => h(
    one.text === whole.wanted ? "tr.is-wanted" : "tr",
    h("td.signs", one.text === whole.wanted ? h("span", { title: "what was wanted" }, "◎") : "", one.logprob !== null && one.logprob === best && found.length > 1 ? h("span", { title: "the most probable" }, "★") : ""),
    h("td.choice", h("bdi", visible(one.text))),
    h("td.strength", one.logprob === null ? h("em", "no answer") : levelBar(one.logprob, worst, one.logprob === best)),
    h("td.number", one.logprob === null ? "" : figure(one.logprob)),
    h("td.soft", one.greedy ? "greedy" : ""),
  ));
  const title = several ? `Log-probabilities after prompt ${group[0].request.prompt + 1}` : found.length > 1 ? "Choices" : "Log-probability";
  return h("section", h("h3", title), h("table.choices", h("tbody", rows)), found.length > 1 ? h("p.key", "★ most probable   ◎ wanted   log-probability in nats") : null);
}

function levelBar(value, worst, best) {
  const share = worst === 0 ? 1 : 1 - value / worst;
  return fluid((width) => drawing(width, 12, `${figure(value)} nats`, box(0, 3, width, 6, "level-track"), box(0, 3, Math.max(2, share * width), 6, best ? "level-best" : "level-rest")), 40);
}

function textOf({ answers, finish }, whole) {
  const several = answers.length > 1;
  return h(
    "section",
    h("h3", several ? `${answers.length} answers` : "Answer", finish === "length" ? h("span.tag", "ended at its limit of tokens") : null),
    answers.map((text) => (typeof text !== "string" ? h("p.soft", "no answer") : block(text))),
    h("dl.facts", h("dt", "wanted"), h("dd", h("bdi", visible(whole.target)))),
  );
}

function scoresOf(whole) {
  if (!whole.scores.some((one) => Object.keys(one.values).length)) return null;
  const filters = whole.scores.length > 1 || whole.scores[0].filter !== "none";
  const rows = whole.scores.flatMap((one) => Object.entries(one.values).map(([name, value]) => h(
    "tr",
    h("td", name),
    filters ? h("td", one.filter) : null,
    h("td.number", typeof value === "number" ? figure(value) : h("code", JSON.stringify(value))),
    h("td.answer", h("bdi", visible(one.answer.slice(0, 300)))),
    h("td.said", one.explanations[name] ? visible(one.explanations[name]) : ""),
  )));
  const heads = ["metric", ...(filters ? ["filter"] : []), "value", "answer as it was read", ""];
  return h("section", h("h3", "Scores"), h("div.scroll", h("table", h("thead", h("tr", heads.map((text) => h("th", text)))), h("tbody", rows))));
}

/** Requests after the first responses, to a judge for example. */
function exchangesOf(whole) {
  if (!whole.exchanges.length) return null;
  return h("section", h("h3", "Follow-up requests"), whole.exchanges.map((one) => h(
    "div.prompt",
    h("h4", one.model ? `to ${one.model}` : "to the tested model"),
    one.parts.map((part) => [part.title ? h("h4", part.title) : null, block(part.text)]),
    h("h4", "response"),
    one.error ? h("p.trouble", visible(one.error)) : block(typeof one.answer === "string" ? one.answer : JSON.stringify(one.answer)),
  )));
}

/** The baseline's answer beside this one. */
function beforeOf(whole) {
  const was = whole.before;
  if (!was) return null;
  const name = run.facts.comparison?.name ?? "before";
  const texts = [textAnswer(was.answers), textAnswer(whole.answers)];
  // A baseline keeps what was read out of a text, which says nothing beside a text.
  const [then, now] = texts.includes(null) ? [was.answer, whole.scores[0]?.answer ?? ""] : texts;
  const word = (one) => ({ true: "correct", false: "wrong" })[String(one.correct)] ?? one.status;
  const titles = [`${name}: ${word(was)}`, `this run: ${word(whole)}`];
  if (then === now) return h("section", h("h3", `Beside ${name}`), h("p", `The same answer. ${titles.join("; ")}.`));
  return h("section", h("h3", `Beside ${name}`), sideBySide(then, now, titles));
}

/** The generated text, if there is one. */
const textAnswer = (answers) => (typeof answers?.[0]?.[0] === "string" ? answers[0][0] : null);

function promptsOf(whole) {
  if (!whole.prompts.length) return null;
  const several = whole.prompts.length > 1;
  const space = h("button.quiet", { type: "button", "aria-pressed": String(marksSpaces), click: () => { marksSpaces = !marksSpaces; refresh(); } }, "show blanks");
  return h(
    "section",
    h("h3", several ? `${whole.prompts.length} prompts` : "Prompt", space),
    whole.prompts.map((parts) => h("div.prompt", parts.map((part) => [
      part.title ? h("h4", part.title) : null,
      block(part.text),
    ]))),
    h("p.small", [tokensOf(whole.tokens), run.facts.begins].filter(Boolean).join("; ")),
  );
}

function tokensOf(tokens) {
  const told = [];
  if (tokens.prompt) told.push(`${count(tokens.prompt)} tokens read`);
  if (tokens.answer) told.push(`${count(tokens.answer)} scored or generated`);
  if (tokens.truncated) told.push(`${count(tokens.truncated)} cut off at the beginning`);
  return told.join(", ");
}

function dataOf(doc, whole) {
  const settings = [...new Set(whole.asked.map((request) => request.settings).filter(Boolean))];
  const facts = [
    ["position", String(whole.doc_id)],
    ["hash of the row", whole.hashes.doc],
    ["hash of the prompt", whole.hashes.prompt],
    ...settings.map((text) => ["generation", text]),
  ].filter(([, value]) => value);
  return [
    whole.row ? h("section", h("details", h("summary", "Row of the dataset"), block(whole.row, "code"))) : null,
    h("section", h("details", h("summary", "What identifies it"), h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", h("code", value))])))),
  ];
}

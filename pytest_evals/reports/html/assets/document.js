// One document: its answers, scores, prompts and data.

function documentPane(doc, whole) {
  const part = run.facts.parts[doc.task];
  const node = `${part?.node ?? doc.task}[${doc.id}]`;
  return h(
    "article.document",
    h("header", h("p.over", link("task", { name: doc.task }, doc.task)), h("h2", h("bdi", breakable(doc.id))), h("p.marks", marksOf(doc))),
    h("p.node-line", h("code.node", breakable(node)), copyButton(node, "copy id"), copyButton(`pytest ${quoted(node)} -v`, "copy command", "run it again, with the same options")),
    whole.error ? h("section.trouble", h("h3", "Why it has no score"), block(whole.error)) : null,
    whole.excluded ? h("section.trouble", h("h3", "Why it is excluded from the metrics"), block(whole.excluded)) : null,
    answersOf(whole),
    returnedOf(whole.returned, "h3"),
    beforeOf(whole),
    inRunsOf(doc),
    scoresOf(whole),
    promptsOf(whole),
    exchangesOf(whole),
    dataOf(doc, whole),
  );
}

function marksOf(doc) {
  const marks = [stateMark(doc.state)];
  if (doc.flags & REGRESSED) marks.push(h("span.mark.is-worse", h("span.sign", "▼"), "regressed"));
  if (doc.flags & IMPROVED) marks.push(h("span.mark.is-better", h("span.sign", "▲"), "improved"));
  if (doc.flags & TRUNCATED) marks.push(h("span.mark.is-warn", h("span.sign", "✂"), "prompt truncated"));
  if (doc.flags & CUT_OFF) marks.push(h("span.mark.is-warn", h("span.sign", "✂"), "answer reached the token limit"));
  return marks;
}

/** Answers: choices in one table for each prompt, texts one after the other. */
function answersOf(whole) {
  const requests = whole.asked.map((request, i) => ({ request, i, answers: whole.answers[i] ?? [], finish: whole.finish[i] }));
  const groups = grouped(requests, ({ request, i }) => (request.kind === "choice" ? `choice ${request.prompt}` : `${request.kind} ${i}`));
  return [...groups.values()].map((group) => {
    if (group[0].request.kind === "choice") return choicesOf(group, whole, groups.size > 1);
    if (group[0].request.kind === "text") return textOf(group[0], whole);
    return h("section", h("h3", "Log-probability of the text"), h("p.big", logprob(group[0].answers[0])));
  });
}

const RETURNED = { steps: "Steps", data: "Data", calls: "Tool calls", contexts: "Retrieved texts", messages: "Transcript", usage: "Usage", metadata: "Metadata" };

/** What an application returned in addition to its answers. */
function returnedOf(pairs, heading) {
  return (pairs ?? []).map(([name, shown]) => h("section", h(heading, RETURNED[name] ?? name), returnedPart(name, shown)));
}

function returnedPart(name, shown) {
  if (typeof shown === "string") return block(shown, "code");
  if (name === "calls") return callTree(shown);
  if (name === "contexts") return h("ol.contexts", shown.map(({ about, text }) => h("li", about ? h("p.small", visible(about)) : null, text ? block(text) : null)));
  return h("div.prompt", shown.map((one) => [h("h4", visible(one.role)), one.text ? block(one.text) : null, one.images.map(imageOf), h("div.returned", returnedOf(one.returned, "h5"))]));
}

/** Calls, each with its fields and the calls that it made. */
function callTree(calls) {
  return h("ul.calls", calls.map((one) => h("li", h(
    "details.call",
    { open: one.failed || one.inner.length > 0 },
    h("summary", one.failed ? withSign("✕", "failed", "wrong", true) : null, h("code", visible(one.line))),
    one.fields.map(([name, text]) => [h("p.small", name), block(text, "code")]),
    one.inner.length ? callTree(one.inner) : null,
  ))));
}

/** All texts of such a part. */
function textsIn(shown) {
  if (typeof shown === "string") return [shown];
  return shown && typeof shown === "object" ? Object.values(shown).flatMap(textsIn) : [];
}

const logprob = (value) => (typeof value === "number" ? `${figure(value)} nats` : "no answer");

function choicesOf(group, whole, several) {
  const choices = group.map(({ request, i, answers }) => ({ text: request.text, logprob: answers[0]?.[0] ?? null, greedy: answers[0]?.[1] === true, isCorrect: whole.gold.includes(i) }));
  const numbers = choices.map((one) => one.logprob).filter((v) => v !== null);
  const best = numbers.length ? Math.max(...numbers) : null;
  const worst = numbers.length ? Math.min(...numbers, 0) * 1.08 : -1;
  const sum = numbers.reduce((all, v) => all + Math.exp(v - best), 0);
  const rows = choices.map((one) => {
    const isBest = one.logprob !== null && one.logprob === best && choices.length > 1;
    return h(
      one.isCorrect ? "tr.is-target" : "tr",
      h("td.signs", one.isCorrect ? withSign("◎", "correct choice", "target", true) : "", isBest ? withSign("★", "most probable", "best", true) : ""),
      h("td.choice", h("bdi", visible(one.text))),
      h("td.strength", one.logprob === null ? h("em", "no answer") : levelBar(one.logprob, worst, isBest)),
      h("td.number", one.logprob === null ? "" : figure(one.logprob)),
      h("td.number.soft", one.logprob === null || choices.length < 2 ? "" : `${(100 * Math.exp(one.logprob - best) / sum).toFixed(1)}%`),
      h("td.soft", one.greedy ? "greedy" : ""),
    );
  });
  const title = several ? `Log-probabilities after prompt ${group[0].request.prompt + 1}` : choices.length > 1 ? "Choices" : "Log-probability";
  return h("section", h("h3", title), h("div.scroll", h("table.choices", h("tbody", rows))), choices.length > 1 ? h("p.key", "◎ correct choice   ★ most probable   log-probability in nats   probability among the choices") : null);
}

function levelBar(value, worst, best) {
  const share = worst === 0 ? 1 : 1 - value / worst;
  return fluid((width) => drawing(width, 12, `${figure(value)} nats`, box(0, 3, width, 6, "level-track"), box(0, 3, Math.max(2, share * width), 6, best ? "level-best" : "level-rest")), 40);
}

function textOf({ answers, finish }, whole) {
  const several = answers.length > 1;
  return h(
    "section",
    h("h3", several ? `${answers.length} answers` : "Answer", finish === "length" ? h("span.tag", "reached the token limit") : null),
    answers.map((text) => (typeof text !== "string" ? h("p.soft", "no answer") : block(text))),
    whole.target ? h("dl.facts", h("dt", "target"), h("dd", h("bdi", visible(whole.target)))) : null,
  );
}

function scoresOf(whole) {
  if (!whole.scores.some((one) => Object.keys(one.values).length)) return null;
  const filters = whole.scores.length > 1 || whole.scores[0].filter !== "none";
  const isExplained = whole.scores.some((one) => Object.keys(one.explanations).length);
  const generated = textAnswer(whole.answers);
  const isExtracted = whole.scores.some((one) => one.answer !== generated);
  const rows = whole.scores.flatMap((one) => Object.entries(one.values).map(([name, value], i) => h(
    "tr",
    h("td", name),
    filters ? h("td", one.filter) : null,
    h("td.number", typeof value === "number" ? figure(value) : h("code", JSON.stringify(value))),
    isExtracted ? h("td.answer", i ? "" : h("bdi", visible(beginning(one.answer, 300)))) : null,
    isExplained ? h("td.said", visible(one.explanations[name] ?? "")) : null,
  )));
  const heads = ["metric", ...(filters ? ["filter"] : []), "value", ...(isExtracted ? ["extracted answer"] : []), ...(isExplained ? ["explanation"] : [])];
  return h("section", h("h3", "Scores"), h("div.scroll", h("table.scores", h("thead", h("tr", heads.map((text) => h("th", text)))), h("tbody", rows))));
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
    returnedOf(one.returned, "h4"),
  )));
}

/** The answers of the baseline and of this run. */
function beforeOf(whole) {
  const was = whole.before;
  if (!was) return null;
  const name = run.facts.comparison?.name ?? "baseline";
  const texts = [textAnswer(was.answers), textAnswer(whole.answers)];
  // A saved baseline has extracted answers only; compare them with extracted answers.
  const [then, now] = texts.includes(null) ? [was.answer, whole.scores[0]?.answer ?? ""] : texts;
  const titles = [[`${name}: `, outcomeOf(was)], ["this run: ", outcomeOf(whole)]];
  const heading = h("h3", `Compared with ${name}`);
  if (then === now) return h("section", heading, h("p", "The same answer. ", titles[0], "; ", titles[1], "."));
  return h("section", heading, sideBySide(then, now, titles));
}

/** Whether an answer is correct, by its own sign: the colours of a diff mean old and new. */
function outcomeOf({ correct, status }) {
  if (correct === true) return stateMark("r");
  return correct === false ? stateMark("w") : status;
}

/** The document in all runs. */
function inRunsOf(doc) {
  const others = otherRuns();
  if (others.length < (run.facts.comparison ? 2 : 1)) return null;
  const rows = [...others.map((other) => [other.title, inRun(doc, other.at)]), ["this run", doc]];
  return h("section", h("h3", "In all runs"), h("div.scroll", h("table.in-runs", h("tbody", rows.map(([title, found]) => h(
    "tr", h("td", h("bdi", title)), h("td", found ? stateMark(found.state) : h("span.soft", "not in this run")), h("td", h("bdi", found?.answer ?? "")),
  ))))));
}

/** The generated text, if there is one. */
const textAnswer = (answers) => (typeof answers?.[0]?.[0] === "string" ? answers[0][0] : null);

function promptsOf(whole) {
  if (!whole.prompts.length) return null;
  const several = whole.prompts.length > 1;
  const space = h("button.quiet", { type: "button", "aria-pressed": String(marksSpaces), click: () => { marksSpaces = !marksSpaces; refresh(); } }, "show whitespace");
  return h(
    "section",
    h("h3", several ? `${whole.prompts.length} prompts` : "Prompt", space),
    whole.prompts.map((parts) => h("div.prompt", parts.map((part) => [
      part.title ? h("h4", part.title) : null,
      block(part.text),
      (part.images ?? []).map(imageOf),
    ]))),
    h("p.small", [tokensOf(whole.tokens), run.facts.begins].filter(Boolean).join("; ")),
  );
}

/** An image of a message: its name, and a small version if the page has one. */
function imageOf({ name, src }) {
  return h("figure.image", src.startsWith("data:image/") ? h("img", { src, alt: "" }) : null, h("figcaption", h("bdi", visible(name))));
}

function tokensOf(tokens) {
  const parts = [];
  if (tokens.prompt) parts.push(`${plural(tokens.prompt, "prompt token")}`);
  if (tokens.answer) parts.push(`${count(tokens.answer)} scored or generated`);
  if (tokens.truncated) parts.push(`${count(tokens.truncated)} truncated at the beginning`);
  return parts.join(", ");
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
    h("section", h("details", h("summary", "Position, hashes and sampling"), h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", h("code", value))])))),
  ];
}

// A store of JSON documents with an index of words. A visit reads recent documents, searches and edits some.
"use strict";
const { serve } = require("./lines.js");

const DOCUMENTS = 60_000;
const WORDS = Array.from({ length: 5_000 }, (_, i) => "word" + ((i * 7919) % 99_991).toString(36));
const documents = Array.from({ length: DOCUMENTS }, (_, i) => JSON.stringify({
  id: i,
  title: `Note ${i}`,
  text: Array.from({ length: 60 }, (_, k) => WORDS[(i * 31 + k * k * 17) % WORDS.length]).join(" "),
  tags: [`tag${i % 50}`, `year${2000 + (i % 25)}`],
}));
const index = new Map();
documents.forEach((document, i) => {
  for (const word of new Set(JSON.parse(document).text.split(" ").slice(0, 12))) {
    if (!index.has(word)) index.set(word, []);
    index.get(word).push(i);
  }
});

serve((round) => {
  let found = 0;
  for (let recent = DOCUMENTS - 6_000; recent < DOCUMENTS; recent++) {
    const document = JSON.parse(documents[recent]);
    if (recent % 3 === 0) {
      document.text += ` edited ${round}`;
      documents[recent] = JSON.stringify(document);
    }
  }
  for (let query = 0; query < 40; query++) {
    for (const i of (index.get(WORDS[(round * 97 + query * 13) % WORDS.length]) ?? []).slice(0, 50))
      found += JSON.parse(documents[i]).tags.length;
  }
  return found;
});

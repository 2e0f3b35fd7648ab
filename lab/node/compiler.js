// The TypeScript compiler as an editor uses it. A visit requests the types of the visible names.
"use strict";
const path = require("node:path");
const ts = require("typescript");
const { serve } = require("./lines.js");

const library = path.dirname(require.resolve("typescript"));
const program = ts.createProgram([path.join(library, "typescript.d.ts")], {
  lib: ["lib.esnext.full.d.ts"],
  noEmit: true,
});
const checker = program.getTypeChecker();
const files = program.getSourceFiles();
files.forEach((file) => program.getSemanticDiagnostics(file));

function namesIn(node, depth, found) {
  if (ts.isIdentifier(node)) found.push(node);
  if (depth < 8) ts.forEachChild(node, (child) => void namesIn(child, depth + 1, found));
  return found;
}

serve((round) => {
  const main = files[files.length - 1];
  const other = files[(round * 5) % files.length];
  const front = main.statements.slice(0, 1);
  const names = [...front, ...other.statements.slice(0, 200)].flatMap((node) => namesIn(node, 0, []));
  return names.filter((name) => checker.getTypeAtLocation(name)).length;
});

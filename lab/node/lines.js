// Shared by the line applications of this folder: print "ready", and answer "visit N" with "done".
"use strict";
const readline = require("node:readline");

exports.serve = (visit) => {
  console.log("ready");
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const round = Number(line.split(" ")[1]);
    console.log("done", visit(round));
  });
};

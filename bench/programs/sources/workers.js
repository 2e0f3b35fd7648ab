// Four worker threads that allocate buffers and objects, compress and digest; prints a digest.
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const crypto = require("crypto");
const zlib = require("zlib");
const { execFileSync } = require("child_process");

function work(seed) {
  let state = seed * 2654435761 >>> 0 || 1;
  const draw = (below) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % below;
  const hash = crypto.createHash("sha256");
  let kept = [];
  for (let number = 0; number < 120; number++) {
    const block = new Uint8Array(1 + draw(4 << 20));
    for (let at = 0; at < block.length; at += 4093) {
      if (block[at] !== 0) throw new Error("fresh memory is not zero");
      block[at] = number;
    }
    kept.push(block);
    kept.push(Array.from({ length: 2000 }, (_, at) => ({ at, text: `${number}-${at}` })));
    if (kept.length > 16) {
      const taken = kept.splice(draw(16), 1)[0];
      hash.update(taken instanceof Uint8Array ? taken : JSON.stringify(taken));
    }
    if (number % 20 === 0) hash.update(zlib.inflateSync(zlib.deflateSync(Buffer.from(block.buffer, 0, block.length))));
  }
  return hash.digest("hex");
}

if (isMainThread) {
  const results = [];
  let left = 4;
  for (let seed = 0; seed < 4; seed++) {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on("message", (digest) => { results[seed] = digest; });
    worker.on("error", (error) => { throw error; });
    worker.on("exit", () => {
      if (--left > 0) return;
      results.push(execFileSync(process.execPath, ["-p", "Buffer.alloc(1 << 22).length"]).toString());
      console.log("finished", crypto.createHash("sha256").update(results.join()).digest("hex"));
    });
  }
} else {
  parentPort.postMessage(work(workerData));
}

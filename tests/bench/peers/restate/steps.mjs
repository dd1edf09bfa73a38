// The user's own code for wfhost's three calls: the same addition, asked for by HTTP.
//   node steps.mjs PORT
import { createServer } from "node:http";

createServer((request, response) => {
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ n: JSON.parse(text).n + 1 }));
  });
}).listen(Number(process.argv[2]), "127.0.0.1");

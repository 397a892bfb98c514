// Writes .br and .gz beside every file of dist/, and fails on inline scripts or styles in index.html.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
const html = readFileSync(join(dist, "index.html"), "utf8");
if (/<style|<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=/i.test(html)) {
  console.error("dist/index.html has an inline script or style: the content security policy blocks it");
  process.exit(1);
}

let total = 0;
for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  if (!entry.isFile() || /\.(br|gz)$/.test(path)) continue;
  const bytes = readFileSync(path);
  const br = brotliCompressSync(bytes, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
  });
  writeFileSync(`${path}.br`, br);
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  total += br.length;
}
console.log(`compressed dist/: ${Math.round(total / 1000)} kB brotli in total`);

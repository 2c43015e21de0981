#!/usr/bin/env node
// Starts the program of the package for this system, and ends as it ends.
const { spawn } = require("child_process");

const name = `longhand-cli-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/longhand${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`error: the package ${name} is not installed: longhand has no program for this system, or npm left it out`);
  console.error("hint: install without --omit=optional");
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to the program too, which decides what it means. Other signals are passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});

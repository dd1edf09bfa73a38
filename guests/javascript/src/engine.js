// The module "wfhost" of the script engine (guests/script-js), which bundles this file.
export * from "./core.js";
export { default } from "./core.js";
import "./globals.js";

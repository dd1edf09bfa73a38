export { triple as run } from "./lib/double.js";


export * from "./nothing-here.js";

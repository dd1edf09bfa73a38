const größe = "é";
export const run = () => größe + x;

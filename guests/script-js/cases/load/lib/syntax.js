
let let = 1;

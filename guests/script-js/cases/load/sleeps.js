import { sleep } from "wfhost";
sleep(1);
export async function run() { return 1; }

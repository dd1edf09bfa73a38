import "/etc/passwd";
export function run() {}

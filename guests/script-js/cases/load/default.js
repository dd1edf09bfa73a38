export default async (ctx, input) => input;

/* A merge sort in place of musl's smoothsort: jq sorts with costly comparisons, of which this makes far fewer. */
#include <stdlib.h>
#include <string.h>

typedef int comparison(const void *, const void *);

/* Sorts n items of `width` bytes; `spare` has room for half of them. */
static void merge_sort(char *items, char *spare, size_t n, size_t width, comparison *compare) {
  if (n < 2)
    return;
  size_t half = n / 2;
  char *middle = items + half * width, *end = items + n * width;
  merge_sort(items, spare, half, width, compare);
  merge_sort(middle, spare, n - half, width, compare);
  if (compare(middle - width, middle) <= 0)
    return;

  memcpy(spare, items, half * width);
  char *left = spare, *left_end = spare + half * width, *right = middle, *out = items;
  while (left < left_end && right < end) {
    char **from = compare(left, right) <= 0 ? &left : &right;
    memcpy(out, *from, width);
    *from += width;
    out += width;
  }
  memcpy(out, left, left_end - left);
}

void qsort(void *items, size_t n, size_t width, comparison *compare) {
  char *spare = malloc((n / 2 + 1) * width);
  if (!spare)
    abort();
  merge_sort(items, spare, n, width, compare);
  free(spare);
}

// The heap. Until `init` freed memory is cleared, so that images hold no rubbish. Compiled without
// the macros that lead the other files here.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#undef free
#undef realloc
extern bool loading;
size_t malloc_usable_size(void *);

void engine_free(void *p) {
    if (p && loading) memset(p, 0, malloc_usable_size(p));
    free(p);
}

void *engine_realloc(void *p, size_t size) {
    if (!p || !loading) return realloc(p, size);
    size_t old = malloc_usable_size(p);
    if (size <= old && size > old / 2) return p;
    void *q = malloc(size);
    if (!q) return NULL;
    memcpy(q, p, old < size ? old : size);
    engine_free(p);
    return q;
}

enum { RESERVE = 256 << 10 };
static void *reserve;

void reserve_take(void) {
    if (!reserve) reserve = malloc(RESERVE);
}

void reserve_release(void) {
    free(reserve);
    reserve = NULL;
}

void *need(size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (!p) {
        reserve_release();
        p = calloc(1, size);
    }
    if (!p) __builtin_trap();
    return p;
}

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *ptr, size_t old_size, size_t align, size_t new_size) {
    (void)old_size;
    if (new_size == 0) return (void *)align;
    void *p = realloc(ptr, new_size);
    if (!p) {
        reserve_release();
        p = realloc(ptr, new_size);
    }
    if (!p) __builtin_trap();
    return p;
}

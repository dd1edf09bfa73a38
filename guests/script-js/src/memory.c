// The heap: chunks by size, joined with their free neighbours, so that what is given back at the end of memory serves every size; the C
// library's allocator keeps powers of two apart for ever. Until `init` freed memory is cleared, so that images hold no rubbish.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifndef HEAP_GROW
extern unsigned char __heap_base;
#define HEAP_START ((uintptr_t)&__heap_base)
#define HEAP_GROW(pages) (__builtin_wasm_memory_grow(0, pages) != SIZE_MAX)
#define HEAP_END() ((uintptr_t)__builtin_wasm_memory_size(0) << 16)
extern bool loading;
#endif

// `before` is the size of the chunk before, if that is free. The two links are there in free chunks only. Sizes are multiples of 8, and the
// contents are 8 bytes after the chunk's begin.
typedef struct Chunk {
    uint32_t before, head;
    struct Chunk *next, *last;
} Chunk;
enum { USED = 1, USED_BEFORE = 2, FLAGS = 7, OVERHEAD = 8, LEAST = 24, SMALL = 512, BINS = 64 + 4 * 23, GROW_PAGES = 4 };

static Chunk *bins[BINS];
static uint32_t filled[(BINS + 31) / 32];
static Chunk *top;  // what is left at the end; it is in no bin

static uint32_t size_of(const Chunk *c) { return c->head & ~(uint32_t)FLAGS; }
static Chunk *after(Chunk *c, size_t size) { return (Chunk *)((char *)c + size); }
static void *contents(Chunk *c) { return (char *)c + OVERHEAD; }
static Chunk *chunk_of(const void *p) { return (Chunk *)((char *)p - OVERHEAD); }

// Below SMALL a bin for each size; above four for each power of two.
static uint32_t bin_of(uint32_t size) {
    if (size < SMALL) return size / 8;
    uint32_t log = 31 - __builtin_clz(size);
    return 64 + 4 * (log - 9) + (size >> (log - 2) & 3);
}

static void put(Chunk *c) {
    uint32_t bin = bin_of(size_of(c));
    c->last = NULL;
    c->next = bins[bin];
    if (c->next) c->next->last = c;
    bins[bin] = c;
    filled[bin / 32] |= 1u << bin % 32;
}

static void take(Chunk *c) {
    uint32_t bin = bin_of(size_of(c));
    if (c->next) c->next->last = c->last;
    if (c->last) c->last->next = c->next;
    else if (!(bins[bin] = c->next)) filled[bin / 32] &= ~(1u << bin % 32);
}

static Chunk *find(uint32_t size) {
    uint32_t bin = bin_of(size);
    // In the bin of its own size a large chunk may be too small; a few are looked at.
    int looks = 8;
    for (Chunk *c = bins[bin]; c && looks--; c = c->next) {
        if (size_of(c) >= size) return c;
    }
    for (uint32_t i = bin + 1; i < BINS; i = (i / 32 + 1) * 32) {
        uint32_t word = filled[i / 32] >> i % 32;
        if (word) return bins[i + __builtin_ctz(word)];
    }
    return NULL;
}

static bool grow(uint32_t size) {
    if (!top) {
        top = (Chunk *)((HEAP_START + 15) & ~(uintptr_t)15);
        top->head = (uint32_t)(HEAP_END() - (uintptr_t)top - OVERHEAD) | USED_BEFORE;
    }
    uint32_t have = size_of(top);
    if (have >= size + LEAST) return true;
    size_t pages = (size + LEAST - have + 65535) >> 16, more = pages < GROW_PAGES ? GROW_PAGES : pages;
    if (!HEAP_GROW(more)) {
        more = pages;
        if (!HEAP_GROW(more)) return false;
    }
    top->head += (uint32_t)more << 16;
    return true;
}

// Cuts a used chunk to this size; the rest becomes free.
static void give_back(Chunk *c);
static void trim(Chunk *c, uint32_t size) {
    uint32_t rest = size_of(c) - size;
    if (rest < LEAST) return;
    c->head -= rest;
    Chunk *r = after(c, size);
    r->head = rest | USED | USED_BEFORE;
    give_back(r);
}

static uint32_t chunk_size(size_t size) { // 0: too large
    if (size > (size_t)1 << 31) return 0;
    uint32_t s = ((uint32_t)size + OVERHEAD + 7) & ~7u;
    return s < LEAST ? LEAST : s;
}

void *engine_malloc(size_t wanted) {
    uint32_t size = chunk_size(wanted);
    if (!size) return NULL;
    Chunk *c = find(size);
    if (c) {
        take(c);
        c->head |= USED;
        after(c, size_of(c))->head |= USED_BEFORE;
        trim(c, size);
        return contents(c);
    }
    if (!grow(size)) return NULL;
    c = top;
    uint32_t rest = size_of(c) - size;
    top = after(c, size);
    top->head = rest | USED_BEFORE;
    c->head = size | USED | (c->head & USED_BEFORE);
    return contents(c);
}

static void give_back(Chunk *c) {
    uint32_t size = size_of(c);
    Chunk *next = after(c, size);
    if (!(c->head & USED_BEFORE)) {
        Chunk *b = (Chunk *)((char *)c - c->before);
        take(b);
        size += c->before;
        b->head = size | USED_BEFORE;
        c = b;
    }
    if (next == top) {
        size += size_of(top);
        top = c;
        top->head = size | USED_BEFORE;
        return;
    }
    if (!(next->head & USED)) {
        take(next);
        size += size_of(next);
        next = after(c, size);
    }
    c->head = size | USED_BEFORE;
    next->before = size;
    next->head &= ~(uint32_t)USED_BEFORE;
    put(c);
}

size_t engine_usable(const void *p) { return p ? size_of(chunk_of(p)) - OVERHEAD : 0; }

void engine_free(void *p) {
    if (!p) return;
    if (loading) memset(p, 0, engine_usable(p));
    give_back(chunk_of(p));
}

void *engine_calloc(size_t n, size_t size) {
    size_t all;
    void *p = __builtin_mul_overflow(n, size, &all) ? NULL : engine_malloc(all);
    return p ? memset(p, 0, all) : NULL;
}

void *engine_realloc(void *p, size_t wanted) {
    if (!p) return engine_malloc(wanted);
    uint32_t size = chunk_size(wanted);
    if (!size) return NULL;
    Chunk *c = chunk_of(p);
    uint32_t have = size_of(c);
    if (have < size) {
        // In place, where the next one is free and large enough.
        Chunk *next = after(c, have);
        if (next != top && !(next->head & USED) && have + size_of(next) >= size) {
            take(next);
            c->head += size_of(next);
            after(c, size_of(c))->head |= USED_BEFORE;
            have = size_of(c);
        } else {
            void *q = engine_malloc(wanted);
            if (!q) return NULL;
            memcpy(q, p, have - OVERHEAD);
            engine_free(p);
            return q;
        }
    }
    if (loading && have > size) memset((char *)c + size, 0, have - size);
    trim(c, size);
    return p;
}

#ifndef HEAP_ALONE
#include "engine.h"

enum { RESERVE = 256 << 10 };
static void *reserve;

void reserve_take(void) {
    if (!reserve) reserve = engine_malloc(RESERVE);
}

void reserve_release(void) {
    engine_free(reserve);
    reserve = NULL;
}

static void *at_last(void *p, size_t size) {
    void *q = engine_realloc(p, size);
    if (!q) {
        reserve_release();
        q = engine_realloc(p, size);
    }
    if (!q) __builtin_trap();
    return q;
}

void *need(size_t size) { return memset(at_last(NULL, size), 0, size); }

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *ptr, size_t old_size, size_t align, size_t new_size) {
    return new_size ? at_last(ptr, new_size) : (void *)align;
}
#endif

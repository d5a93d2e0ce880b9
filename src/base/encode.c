/* encode.c - see encode.h. */
#include "base/encode.h"

#include <endian.h>
#include <string.h>

#include "base/arena.h"

struct encoder encode_into(void *bytes, size_t room)
{
    return (struct encoder){.bytes = bytes, .room = room};
}

/* In line: for a number it is one store. */
static inline void put(struct encoder *e, const void *bytes, size_t n)
{
    if (e->is_full || n > e->room - e->n) {
        e->is_full = true;
        return;
    }
    if (n)
        memcpy(e->bytes + e->n, bytes, n);
    e->n += n;
}

void encode_bytes(struct encoder *e, const void *bytes, size_t n)
{
    put(e, bytes, n);
}

void encode_u32(struct encoder *e, uint32_t x)
{
    uint32_t little = htole32(x);
    put(e, &little, sizeof little);
}

void encode_u64(struct encoder *e, uint64_t x)
{
    uint64_t little = htole64(x);
    put(e, &little, sizeof little);
}

void encode_f64(struct encoder *e, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    encode_u64(e, bits);
}

void encode_text(struct encoder *e, const char *text)
{
    size_t n = strlen(text);
    encode_u32(e, (uint32_t)n);
    encode_bytes(e, text, n);
}

void encode_in_place(void *numbers, size_t n)
{
    struct encoder e = encode_into(numbers, n * sizeof(uint64_t));
    for (uint64_t x; n; n--) {
        memcpy(&x, e.bytes + e.n, sizeof x);
        encode_u64(&e, x);
    }
}

struct decoder decode_from(const void *bytes, size_t n)
{
    return (struct decoder){.at = bytes, .left = n};
}

/* NULL: they are not there. */
static const unsigned char *take(struct decoder *d, size_t n)
{
    const unsigned char *at = d->at;
    if (d->is_damaged || n > d->left) {
        d->is_damaged = true;
        return NULL;
    }
    d->at += n;
    d->left -= n;
    return at;
}

void decode_bytes(struct decoder *d, void *bytes, size_t n)
{
    const unsigned char *from = n ? take(d, n) : NULL;
    if (from)
        memcpy(bytes, from, n);
    else if (n)
        memset(bytes, 0, n);
}

uint32_t decode_u32(struct decoder *d)
{
    const unsigned char *from = take(d, sizeof(uint32_t));
    uint32_t little = 0;
    if (from)
        memcpy(&little, from, sizeof little);
    return le32toh(little);
}

uint64_t decode_u64(struct decoder *d)
{
    const unsigned char *from = take(d, sizeof(uint64_t));
    uint64_t little = 0;
    if (from)
        memcpy(&little, from, sizeof little);
    return le64toh(little);
}

void decode_in_place(void *numbers, size_t n)
{
    struct decoder d = decode_from(numbers, n * sizeof(uint64_t));
    for (unsigned char *at = numbers; n; n--, at += sizeof(uint64_t)) {
        uint64_t x = decode_u64(&d);
        memcpy(at, &x, sizeof x);
    }
}

double decode_f64(struct decoder *d)
{
    uint64_t bits = decode_u64(d);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

bool decode_bool(struct decoder *d)
{
    uint32_t x = decode_u32(d);
    d->is_damaged = d->is_damaged || x > 1;
    return x == 1 && !d->is_damaged;
}

void decode_text(struct decoder *d, char *text, size_t room)
{
    size_t n = decode_u32(d), kept = smaller(n, room - 1);
    const unsigned char *from = take(d, n);
    if (!from)
        kept = 0;
    if (kept)
        memcpy(text, from, kept);
    text[kept] = 0;
}

bool decode_is_whole(const struct decoder *d)
{
    return !d->is_damaged && d->left == 0;
}

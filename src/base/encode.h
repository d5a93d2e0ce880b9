/* encode.h - numbers and texts as bytes that mean the same to every process: little-endian, of fixed width,
 * lengths before what has them.
 *
 *   struct encoder e = encode_into(bytes, room);        struct decoder d = decode_from(bytes, n);
 *   encode_u32(&e, kind);                               kind = decode_u32(&d);
 *   encode_text(&e, text);                              decode_text(&d, text, sizeof text);
 *   e.n bytes                                           if (!decode_is_whole(&d)) ... it is damaged
 *
 * An encoder that has no more room, and a decoder that finds less than it is asked for, remember it: then
 * nothing is written, and everything read is 0. So one looks once, at the end.
 */
#ifndef VECHE_BASE_ENCODE_H
#define VECHE_BASE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct encoder {
    unsigned char *bytes; /* borrowed */
    size_t n, room;
    bool is_full; /* something did not fit */
};

struct decoder {
    const unsigned char *at; /* borrowed */
    size_t left;
    bool is_damaged;
};

struct encoder encode_into(void *bytes, size_t room);
void encode_u32(struct encoder *e, uint32_t x);
void encode_u64(struct encoder *e, uint64_t x);
void encode_f64(struct encoder *e, double x);
void encode_bytes(struct encoder *e, const void *bytes, size_t n); /* as they are, without their number */
void encode_text(struct encoder *e, const char *text);
/* n numbers of 64 bits each, integers or doubles, become such bytes where they lie. */
void encode_in_place(void *numbers, size_t n);

struct decoder decode_from(const void *bytes, size_t n);
uint32_t decode_u32(struct decoder *d);
uint64_t decode_u64(struct decoder *d);
double decode_f64(struct decoder *d);
void decode_bytes(struct decoder *d, void *bytes, size_t n);
/* With its final zero; one that has no room is cut. */
void decode_text(struct decoder *d, char *text, size_t room);
/* 0 or 1; anything else is damage. */
bool decode_bool(struct decoder *d);
/* And such bytes n numbers again. */
void decode_in_place(void *numbers, size_t n);
/* Everything that was asked for was there, and nothing is left. */
bool decode_is_whole(const struct decoder *d);

#endif

/* letter.c - see letter.h. */
#include "call/letter.h"

#include "base/encode.h"

static size_t n_numbers(size_t n_bytes)
{
    return (n_bytes - sizeof(struct call_head)) / sizeof(uint64_t);
}

static void encode(struct call_head *letter, size_t n_bytes)
{
    struct call_head head = *letter;
    struct encoder e = encode_into(letter, sizeof head);
    encode_u64(&e, head.number);
    encode_u32(&e, head.kind);
    encode_u32(&e, head.what);
    encode_in_place(letter + 1, n_numbers(n_bytes));
}

static void decode(struct call_head *letter, size_t n_bytes)
{
    struct decoder d = decode_from(letter, sizeof *letter);
    struct call_head head = {.number = decode_u64(&d)};
    head.kind = decode_u32(&d);
    head.what = decode_u32(&d);
    *letter = head;
    decode_in_place(letter + 1, n_numbers(n_bytes));
}

fault call_send_letter(struct link *l, size_t to, uint64_t tag, struct call_head *letter, size_t n_bytes)
{
    encode(letter, n_bytes);
    fault f = link_send(l, to, tag, letter, n_bytes);
    decode(letter, n_bytes);
    return f;
}

fault call_recv_letter(struct link *l, size_t from, uint64_t tag, struct call_head *letter, size_t n_bytes,
                       size_t *sender)
{
    size_t who = from;
    TRY(link_recv(l, from, tag, letter, n_bytes, &who));
    decode(letter, n_bytes);
    if (sender)
        *sender = who;
    return letter->kind < 2 * CALL_END ? OK : call_refuse(l, who);
}

fault call_refuse(const struct link *l, size_t from)
{
    return FAIL(FAULT_DATA,
                "member %zu sent member %zu a letter that says what cannot be: another program is there",
                from, l->self);
}

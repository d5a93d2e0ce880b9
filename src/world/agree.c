/* agree.c - what ranks settle together before a world is open, each by one gathering of what every rank has
 * to say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "world/world.h"

void world_host(char name[WORLD_HOST])
{
    if (gethostname(name, WORLD_HOST) != 0)
        snprintf(name, WORLD_HOST, "a nameless host");
    name[WORLD_HOST - 1] = 0;
}

/* What a rank has to say: where it is, a number and a sentence. */
struct word {
    char host[WORLD_HOST];
    uint64_t number;
    char text[1024];
};

enum { NO_FAULT = FAULT_KINDS };

static fault read_word(const unsigned char *bytes, size_t n, size_t rank, struct word *out)
{
    struct decoder d = decode_from(bytes, n);
    decode_text(&d, out->host, sizeof out->host);
    out->number = decode_u64(&d);
    decode_text(&d, out->text, sizeof out->text);
    return decode_is_whole(&d) ? OK
                               : FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", rank);
}

static fault read_words(const unsigned char *bytes, const size_t *lengths, size_t n, struct word *out)
{
    for (size_t i = 0; i < n; bytes += lengths[i++])
        TRY(read_word(bytes, lengths[i], i, &out[i]));
    return OK;
}

/* *out: the words of rank 0, 1, ...; the caller frees. */
static fault gather_words(const struct ranks *ranks, uint64_t number, const char *text, double patience_s,
                          struct word **out)
{
    struct word mine = {.number = number};
    unsigned char bytes[sizeof mine + 16], *all = NULL;
    struct encoder e = encode_into(bytes, sizeof bytes);
    size_t *lengths = calloc(ranks->n, sizeof *lengths);
    struct word *words = calloc(ranks->n, sizeof *words);
    world_host(mine.host);
    snprintf(mine.text, sizeof mine.text, "%s", text);
    encode_text(&e, mine.host);
    encode_u64(&e, mine.number);
    encode_text(&e, mine.text);
    fault f =
        lengths && words ? ranks->door->gather(ranks, bytes, e.n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    if (!f)
        f = read_words(all, lengths, ranks->n, words);
    free(all);
    free(lengths);
    if (f)
        free(words);
    else
        *out = words;
    return f;
}

/* What rank `who` said went wrong. */
static fault fault_of(const struct word *words, size_t who)
{
    enum fault_kind kind = words[who].number < FAULT_KINDS ? (enum fault_kind)words[who].number : FAULT_PEER;
    if (who == 0)
        return FAIL(kind, "%s", words[0].text);
    return FAIL(kind, "rank %zu on %s: %s", who, words[who].host, words[who].text);
}

fault world_agree(const struct ranks *ranks, fault mine, double patience_s)
{
    struct word *words;
    if (ranks->n == 0)
        return mine;
    fault f = gather_words(ranks, mine ? (uint64_t)fault_kind_of(mine) : NO_FAULT,
                           mine ? fault_text(mine) : "", patience_s, &words);
    fault_drop(mine);
    TRY(f);
    size_t who = 0;
    while (who < ranks->n && words[who].number == NO_FAULT)
        who++;
    if (who < ranks->n)
        f = ranks->self ? FAIL(FAULT_ELSEWHERE, "%s", words[who].text) : fault_of(words, who);
    free(words);
    return f;
}

fault world_compare(const struct ranks *ranks, const char *what, const char *mine, double patience_s)
{
    struct word *words;
    if (ranks->n == 0)
        return OK;
    TRY(gather_words(ranks, 0, mine, patience_s, &words));
    size_t who = 1;
    while (who < ranks->n && strcmp(words[who].text, words[0].text) == 0)
        who++;
    fault f = OK;
    if (who < ranks->n)
        f = ranks->self
                ? FAIL(FAULT_ELSEWHERE, "the %s is not everywhere the same", what)
                : FAIL(FAULT_USAGE, "rank %zu on %s has another %s than rank 0 on %s (%.80s, not %.80s)", who,
                       words[who].host, what, words[0].host, words[who].text, words[0].text);
    free(words);
    return f;
}

fault world_largest(const struct ranks *ranks, uint64_t mine, double patience_s, uint64_t *out)
{
    struct word *words;
    *out = mine;
    if (ranks->n == 0)
        return OK;
    TRY(gather_words(ranks, mine, "", patience_s, &words));
    for (size_t i = 0; i < ranks->n; i++)
        *out = words[i].number > *out ? words[i].number : *out;
    free(words);
    return OK;
}

fault world_gather_texts(const struct ranks *ranks, const char *mine, size_t n, double patience_s, char **all)
{
    unsigned char *bytes;
    size_t *lengths = calloc(ranks->n + 1, sizeof *lengths);
    fault f = lengths ? ranks->door->gather(ranks, mine, n, patience_s, &bytes, lengths) : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < ranks->n; i++)
        if (lengths[i] != n || bytes[i * n + n - 1] != 0) {
            f = FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", i);
            free(bytes);
        }
    free(lengths);
    if (!f)
        *all = (char *)bytes;
    return f;
}

fault world_spread_text(const struct ranks *ranks, char **text, double patience_s)
{
    unsigned char *whole;
    if (ranks->n == 0)
        return OK;
    size_t *lengths = calloc(ranks->n, sizeof *lengths), n = ranks->self ? 0 : strlen(*text) + 1;
    fault f = lengths ? ranks->door->gather(ranks, ranks->self ? "" : *text, n, patience_s, &whole, lengths)
                      : OUT_OF_MEMORY;
    if (!f && (lengths[0] == 0 || whole[lengths[0] - 1] != 0)) {
        f = FAIL(FAULT_PEER, "what rank 0 says before the start cannot be read");
        free(whole);
    }
    free(lengths);
    TRY(f);
    if (ranks->self == 0)
        free(*text);
    *text = (char *)whole;
    return OK;
}

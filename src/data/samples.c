/* samples.c - samples in memory lie there all the time; those on disk are the stream's. */
#include "data/stream/stream.h"

fault samples_hold(const struct samples *s, const struct pick *picks, size_t n, struct held *out)
{
    if (s->stream)
        return stream_hold(s->stream, s->is_test, picks, n, out);
    *out = (struct held){.bytes = s->pixels};
    return OK;
}

void samples_let_go(const struct samples *s, const struct held *h)
{
    if (s->stream)
        stream_let_go(s->stream, h);
}

bool samples_hold_next(const struct samples *s, const struct held *before, struct held *out)
{
    return s->stream && stream_hold_next(s->stream, before, out);
}

size_t samples_most_held(const struct samples *s)
{
    return s->stream ? stream_bays(s->stream) : SIZE_MAX;
}

void samples_expect(const struct samples *s, size_t first, size_t n, size_t piece)
{
    if (s->stream)
        stream_expect(s->stream, s->is_test, first, n, piece);
}

fault samples_follow(const struct samples *s, struct feed *f)
{
    if (!s->stream)
        return OK;
    TRY(stream_follow(s->stream, f, &f->course));
    f->ahead = s;
    return OK;
}

/* xml.c - see xml.h. */
#include "base/xml.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the UTF-8 sequence at `s`, or 0 when it is none that XML may hold. */
static size_t sequence(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf8 ? 4 : 0;
    if (n == 1)
        return s[0] >= 0x20 || s[0] == '\n' || s[0] == '\t';
    if (n == 0)
        return 0;
    uint32_t code = s[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) /* the final zero among them */
            return 0;
        code = code << 6 | (s[i] & 0x3fU);
    }
    bool allowed = code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) &&
                   code != 0xfffe && code != 0xffff;
    return allowed ? n : 0;
}

static const char *escape(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void xml_text(FILE *to, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t n = sequence(at);
        const char *escaped = escape((char)*at);
        if (n == 0)
            fputs("\xef\xbf\xbd", to);
        else if (escaped)
            fputs(escaped, to);
        else
            fwrite(at, 1, n, to);
        at += n ? n : 1;
    }
}

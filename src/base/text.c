#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

bool text_is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool text_starts(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

/* Edits between two words: letters put in, left out, exchanged, or two neighbours swapped. */
static size_t edits(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    size_t before[LONGEST + 1], last[LONGEST + 1], row[LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        memcpy(before, last, sizeof last);
        memcpy(last, row, sizeof row);
    }
    return last[m];
}

const char *text_nearest(const char *word, const char *(*candidate)(const void *ctx, size_t i),
                         const void *ctx)
{
    const char *best = NULL, *c;
    size_t fewest = strlen(word) / 3 + 2;
    for (size_t i = 0; (c = candidate(ctx, i)) != NULL; i++) {
        size_t e = edits(word, c);
        if (e < fewest) {
            fewest = e;
            best = c;
        }
    }
    return best;
}

struct shown text_shown(const char *text)
{
    struct shown s;
    size_t n = strlen(text), room = sizeof s.text - 1;
    bool cut = n > room;
    if (cut) {
        n = room - 3;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) /* never half a character */
            n--;
    }
    memcpy(s.text, text, n);
    memcpy(s.text + n, cut ? "..." : "", cut ? 4 : 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s.text[i] < ' ' || s.text[i] == 0x7F)
            s.text[i] = '?';
    return s;
}

struct counted text_count(size_t count)
{
    struct counted out;
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%zu", count), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out.text[k++] = ',';
        out.text[k++] = digits[i];
    }
    out.text[k] = 0;
    return out;
}

/* kind.c - looking up names in the registry's tables. */
#include "experiment/kind.h"

#include <string.h>

#include "base/text.h"

const char *category_name(enum category c)
{
    static const char *const names[] = {
#define CATEGORY_NAME(id, name, help) [id] = name,
        CATEGORIES(CATEGORY_NAME)
#undef CATEGORY_NAME
    };
    return names[c];
}

const char *category_help(enum category c)
{
    static const char *const helps[] = {
#define CATEGORY_HELP(id, name, help) [id] = help,
        CATEGORIES(CATEGORY_HELP)
#undef CATEGORY_HELP
    };
    return helps[c];
}

static bool is_named(const struct kind *kind, const char *name)
{
    if (!kind->pattern)
        return text_is(kind->name, name);
    size_t n = strcspn(name, ":");
    return strlen(kind->name) == n && memcmp(kind->name, name, n) == 0;
}

const struct kind *kind_find(const struct kinds *kinds, const char *name)
{
    for (size_t i = 0; i < kinds->n; i++)
        if (is_named(kinds_at(kinds, i), name))
            return kinds_at(kinds, i);
    return NULL;
}

static const char *name_at(const void *ctx, size_t i)
{
    const struct kinds *kinds = ctx;
    return i < kinds->n ? kinds_at(kinds, i)->name : NULL;
}

const char *kind_nearest(const struct kinds *kinds, const char *name)
{
    char head[64]; /* a tail says nothing about which name was meant */
    size_t n = strcspn(name, ":");
    if (n >= sizeof head)
        return NULL;
    memcpy(head, name, n);
    head[n] = '\0';
    return text_nearest(head, name_at, kinds);
}

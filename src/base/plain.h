/* plain.h - numbers as files have them, 0.5, whatever the program's locale says.
 *
 * Every function of veche.h that reads or writes numbers begins with PLAIN_NUMBERS and is in the locale "C" until it returns; only the calling
 * thread is, so the program's other threads see nothing of it.
 */
#ifndef VECHE_BASE_PLAIN_H
#define VECHE_BASE_PLAIN_H

#include <locale.h>

struct plain {
    locale_t c, before;
};

struct plain plain_begin(void);
void plain_end(struct plain *p);

#define PLAIN_NUMBERS __attribute__((cleanup(plain_end), unused)) struct plain plain_ = plain_begin()

#endif

/* clock.h - real seconds, for people and for rates; nothing that is computed depends on them. */
#ifndef VECHE_BASE_CLOCK_H
#define VECHE_BASE_CLOCK_H

double clock_now_s(void); /* since some fixed moment; never goes back */

#endif

/* comma.h - a locale whose decimal point is a comma. */
#ifndef TESTS_SUPPORT_COMMA_H
#define TESTS_SUPPORT_COMMA_H

/* The whole process is in it from here on, or the test is skipped; compiled where the machine has none. */
void enter_comma_locale(void);
void leave_comma_locale(void);

#endif

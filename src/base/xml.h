/* xml.h - any bytes as text of XML and HTML. */
#ifndef VECHE_BASE_XML_H
#define VECHE_BASE_XML_H

#include <stdio.h>

/* A text between tags or in an attribute's double quotes: the five characters that mean something escaped,
 * what XML cannot hold (control characters, bytes that are not UTF-8) as U+FFFD. */
void xml_text(FILE *to, const char *text);

#endif

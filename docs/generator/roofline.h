/* The page of what each operation of a training step would take on some GPUs, by their data sheets. */
#ifndef ANNEAL_DOCS_GENERATOR_ROOFLINE_H
#define ANNEAL_DOCS_GENERATOR_ROOFLINE_H

#include "docs/generator/writer.h"

/* Writes everything below the title: a section for each shape that gpu-check trains. */
void roofline_write(struct writer *w);

#endif

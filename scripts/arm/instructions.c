// A plugin of QEMU 7.2 and later. It counts the instructions that a program executes, by function, and writes a line for each
// function to the file `out`. Counts of threads that run at once may get lost.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What QEMU's header qemu-plugin.h declares of this.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn * qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const char * qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

// A hash table with more places than any of our programs has functions.
#define PLACES (1 << 18)
static struct function { const char * name; uint64_t count; } functions[PLACES];

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb * block) {
    const char * name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
    if (!name) name = "?";
    // FNV-1a.
    uint64_t hash = 14695981039346656037u;
    for (const char * c = name; *c; c++) hash = (hash ^ (unsigned char) *c) * 1099511628211u;
    size_t at = hash % PLACES;
    while (functions[at].name && strcmp(functions[at].name, name)) at = (at + 1) % PLACES;
    if (!functions[at].name) functions[at].name = strdup(name);
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &functions[at].count, qemu_plugin_tb_n_insns(block));
}

static void write_counts(qemu_plugin_id_t id, void * data) {
    FILE * file = fopen((const char *) data, "w");
    for (size_t i = 0; i < PLACES; i++) {
        if (functions[i].count) fprintf(file, "%llu %s\n", (unsigned long long) functions[i].count, functions[i].name);
    }
    fclose(file);
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void * info, int argc, char ** argv) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, write_counts, strdup(argc > 0 ? strchr(argv[0], '=') + 1 : "instructions.txt"));
    return 0;
}

/* manual: see manual.h. Run by the build as `vkformer manual FOLDER`, which --help does not list. */
#define _POSIX_C_SOURCE 200809L

#include "manual.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The content of one file: commands [n], or for a man page command 0 alone. topics: for the program's page. */
typedef struct manual {
  const tool_command *const *commands;
  size_t n;
  char *const *topics; /* [N_TOPICS] */
  FILE *file;
} manual;

/* Topics of `vkformer help` that are sections of the program's page, too. */
enum { N_TOPICS = 2 };
static const char *const topics[N_TOPICS][2] = {{"EXIT STATUS", "docs/topics/exit-codes.txt"},
                                                {"ENVIRONMENT", "docs/topics/environment.txt"}};

/* Every option of a command, in the order of its help. */
#define FOR_EACH_OPTION(command, option)                                      \
  for (int g_ = 0; g_ < TOOL_MAX_GROUPS && (command)->groups[g_]; g_++)       \
    for (const tool_option *option = (command)->groups[g_]->options,          \
                           *end_ = option + (command)->groups[g_]->n_options; \
         option < end_; option++)

static bool has_value(const tool_option *option) {
  return option->kind != TOOL_FLAG && option->kind != TOOL_KEY_TRUE && option->kind != TOOL_MAYBE_OUTPUT;
}

/* ---- man pages --------------------------------------------------------------------------------------------------- */

/* Writes text for roff, escaped so that nothing is a request or a hyphen at which a line may break. */
static void put_roff(const char *text, FILE *file) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", file);
    begins = *text == '\n';
    if (*text == '\\')
      fputs("\\e", file);
    else if (*text == '-')
      fputs("\\-", file);
    else if (*text == '\'')
      fputs("\\(aq", file);
    else if (*text == '`')
      fputs("\\(ga", file);
    else
      fputc(*text, file);
  }
}

static void put_title(const manual *m, const char *name, const char *summary) {
  fprintf(m->file, ".\\\" Written by `vkformer manual`.\n.TH %s 1 \"\" \"vkformer %s\" \"User Commands\"\n.SH NAME\n",
          name, vkf_version());
  put_roff(name, m->file);
  fputs(" \\- ", m->file);
  put_roff(summary, m->file);
  fputs("\n.SH SYNOPSIS\n", m->file);
}

static void put_examples(const char *examples, FILE *file) {
  fputs(".SH EXAMPLE\n.nf\n", file);
  put_roff(examples, file);
  fputs(".fi\n", file);
}

static void put_command_page(const manual *m) {
  const tool_command *command = m->commands[0];
  char name[64];
  snprintf(name, sizeof name, "vkformer-%s", command->name);
  put_title(m, name, command->summary);
  fprintf(m->file, ".B vkformer ");
  put_roff(command->name, m->file);
  fputc(' ', m->file);
  put_roff(command->usage, m->file);
  fputs("\n.SH DESCRIPTION\n", m->file);
  put_roff(command->summary, m->file);
  fputs(".\n", m->file);
  if (command->text) put_roff(command->text, m->file);
  fputs("\n.SH OPTIONS\n", m->file);
  for (int g = 0; g < TOOL_MAX_GROUPS && command->groups[g]; g++) {
    fputs(".SS \"", m->file);
    put_roff(command->groups[g]->title, m->file);
    fputs("\"\n", m->file);
    for (size_t i = 0; i < command->groups[g]->n_options; i++) {
      const tool_option *option = &command->groups[g]->options[i];
      fputs(".TP\n.B ", m->file);
      if (option->letter) fprintf(m->file, "\\-%c, ", option->letter);
      fputs("\\-\\-", m->file);
      put_roff(option->name, m->file);
      if (option->value) fputs(has_value(option) ? " " : "", m->file);
      if (option->value) put_roff(option->value, m->file);
      fputc('\n', m->file);
      put_roff(option->help, m->file);
      fputc('\n', m->file);
    }
  }
  put_examples(command->examples, m->file);
  fputs(".SH SEE ALSO\n.BR vkformer (1)\n", m->file);
}

/* Writes a topic after its title: lines "  NAME   meaning", whose meaning may continue on the next line, and
 * sentences. */
static void put_topic(char *text, FILE *file) {
  char *rest = NULL;
  strtok_r(text, "\n", &rest);
  for (char *line; (line = strtok_r(NULL, "\n", &rest)) != NULL;) {
    char *word = line + strspn(line, " "), *gap = strstr(word, "  ");
    if (word == line + 2 && gap) {
      *gap = 0;
      fputs(".TP\n.B ", file);
      put_roff(word, file);
      fputc('\n', file);
      word = gap + 1 + strspn(gap + 1, " ");
    } else if (word == line) {
      fputs(".PP\n", file);
    }
    put_roff(word, file);
    fputc('\n', file);
  }
}

static void put_program_page(const manual *m) {
  put_title(m, "vkformer", "Transformer models on Vulkan compute shaders");
  fputs(".B vkformer\nCOMMAND [OPTION]... [ARGUMENT]...\n.SH COMMANDS\n", m->file);
  for (size_t i = 0; i < m->n; i++) {
    fputs(".TP\n.BR vkformer\\-", m->file);
    put_roff(m->commands[i]->name, m->file);
    fputs(" (1)\n", m->file);
    put_roff(m->commands[i]->summary, m->file);
    fputc('\n', m->file);
  }
  for (int i = 0; i < N_TOPICS; i++) {
    fprintf(m->file, ".SH %s\n", topics[i][0]);
    put_topic(m->topics[i], m->file);
  }
  put_examples("vkformer translate \"The cat sat on the mat because it was tired.\"\n", m->file);
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void put_bash(const manual *m) {
  fputs(
      "# Completion of vkformer for bash; written by `vkformer manual`.\n_vkformer() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options='' values=''\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W \"help",
      m->file);
  for (size_t i = 0; i < m->n; i++) fprintf(m->file, " %s", m->commands[i]->name);
  fputs("\" -- \"$word\")\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n", m->file);
  for (size_t i = 0; i < m->n; i++) {
    fprintf(m->file, "    %s)\n      options='", m->commands[i]->name);
    FOR_EACH_OPTION(m->commands[i], option) fprintf(m->file, "--%s ", option->name);
    fputs("'\n      values=' ", m->file);
    FOR_EACH_OPTION(m->commands[i], option) if (has_value(option)) {
      fprintf(m->file, "--%s ", option->name);
      if (option->letter) fprintf(m->file, "-%c ", option->letter);
    }
    fputs("' ;;\n", m->file);
  }
  fputs(
      "  esac\n"
      "  if [[ $word == -* && $values != *\" $before \"* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n}\ncomplete -o filenames -F _vkformer vkformer\n",
      m->file);
}

/* ---- zsh and fish ------------------------------------------------------------------------------------------------ */

/* Writes the first line of a help text, without characters that are special to the shell. */
static void put_line(const char *help, const char *signs, FILE *file) {
  for (; *help; help++) {
    if (*help == '\n')
      fputc(' ', file);
    else if (!strchr(signs, *help))
      fputc(*help, file);
  }
}

static void put_zsh(const manual *m) {
  static const char signs[] = "'[]:\\`\"";
  fputs(
      "#compdef vkformer\n# Completion of vkformer for zsh; written by `vkformer manual`.\n"
      "_vkformer() {\n  local -a commands\n  commands=(\n",
      m->file);
  for (size_t i = 0; i < m->n; i++) {
    fprintf(m->file, "    '%s:", m->commands[i]->name);
    put_line(m->commands[i]->summary, signs, m->file);
    fputs("'\n", m->file);
  }
  fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  case $words[2] in\n",
        m->file);
  for (size_t i = 0; i < m->n; i++) {
    fprintf(m->file, "    %s)\n      _arguments '*: :_files'", m->commands[i]->name);
    FOR_EACH_OPTION(m->commands[i], option) {
      fprintf(m->file, " \\\n        '*--%s[", option->name);
      put_line(option->help, signs, m->file);
      fputs("]", m->file);
      if (has_value(option)) {
        fputs(":", m->file);
        put_line(option->value ? option->value : "value", signs, m->file);
        fputs(":_files", m->file);
      }
      fputs("'", m->file);
    }
    fputs(" ;;\n", m->file);
  }
  fputs("  esac\n}\n_vkformer \"$@\"\n", m->file);
}

static void put_fish(const manual *m) {
  static const char signs[] = "'\\";
  fputs("# Completion of vkformer for fish; written by `vkformer manual`.\n", m->file);
  for (size_t i = 0; i < m->n; i++) {
    const char *name = m->commands[i]->name;
    fprintf(m->file, "complete -c vkformer -n __fish_use_subcommand -f -a %s -d '", name);
    put_line(m->commands[i]->summary, signs, m->file);
    fputs("'\n", m->file);
    FOR_EACH_OPTION(m->commands[i], option) {
      fprintf(m->file, "complete -c vkformer -n '__fish_seen_subcommand_from %s' -l %s", name, option->name);
      if (option->letter) fprintf(m->file, " -s %c", option->letter);
      fputs(has_value(option) ? " -r -d '" : " -d '", m->file);
      put_line(option->help, signs, m->file);
      fputs("'\n", m->file);
    }
  }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int write_one(const char *folder, const char *inside, const char *name, void (*put)(const manual *), manual m) {
  char path[4096], *text = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%s%s%s", folder, inside[0] ? "/" : "", inside);
  if (mkdir(path, 0777) != 0 && errno != EEXIST) return tool_error("%s: cannot be made: %s", path, strerror(errno));
  snprintf(path, sizeof path, "%s/%s/%s", folder, inside, name);
  m.file = open_memstream(&text, &size);
  if (!m.file) return tool_error("out of memory");
  put(&m);
  int exit_code = fclose(m.file) == 0 ? tool_write_file(path, text, size) : tool_error("out of memory");
  free(text);
  return exit_code;
}

int tool_manual_write(const tool_command *const *commands, size_t n, const char *folder) {
  char name[64], *texts[N_TOPICS] = {NULL};
  const manual all = {.commands = commands, .n = n, .topics = texts};
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) return tool_error("%s: cannot be made: %s", folder, strerror(errno));
  int exit_code = TOOL_OK;
  for (int i = 0; i < N_TOPICS && exit_code == TOOL_OK; i++)
    if (!(texts[i] = tool_read_shipped(topics[i][1]))) exit_code = TOOL_FAILED;
  if (exit_code == TOOL_OK) exit_code = write_one(folder, "man1", "vkformer.1", put_program_page, all);
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    snprintf(name, sizeof name, "vkformer-%s.1", commands[i]->name);
    exit_code = write_one(folder, "man1", name, put_command_page, (manual){.commands = commands + i, .n = 1});
  }
  if (exit_code == TOOL_OK) exit_code = write_one(folder, "bash", "vkformer", put_bash, all);
  if (exit_code == TOOL_OK) exit_code = write_one(folder, "zsh", "_vkformer", put_zsh, all);
  if (exit_code == TOOL_OK) exit_code = write_one(folder, "fish", "vkformer.fish", put_fish, all);
  for (int i = 0; i < N_TOPICS; i++) free(texts[i]);
  return exit_code;
}

/* evaluate: BLEU and chrF as sacreBLEU 2 defines them, for evaluate.c and its tests.
 *
 * Each sentence is counted; the counts of a corpus are sums over its sentences; a score is a function of such sums.
 */
#ifndef VKF_TASK_EVALUATE_H
#define VKF_TASK_EVALUATE_H

#include "base/base.h"

enum { VKF_BLEU_ORDER = 4, VKF_CHRF_ORDER = 6 };

typedef struct vkf_bleu_counts {
  double length, reference_length; /* in words; reference: the nearest in length */
  double match[VKF_BLEU_ORDER], total[VKF_BLEU_ORDER];
} vkf_bleu_counts;

typedef struct vkf_chrf_counts {
  struct {
    double hypothesis, reference, match;
  } of[VKF_CHRF_ORDER];
} vkf_chrf_counts;

typedef struct vkf_bleu {
  double score, penalty, precisions[VKF_BLEU_ORDER];
} vkf_bleu;

vkf_bleu vkf_task_bleu(const vkf_bleu_counts *sums);
double vkf_task_chrf(const vkf_chrf_counts *sums);

/* Counts texts. */
typedef struct vkf_evaluator {
  vkf_env *env;
  struct vkf_sequence *sequences; /* [n], of the current sentence: hypothesis, references */
  size_t n;
  struct vkf_word *words; /* [capacity]: hash table of the n_words words of all sentences */
  size_t n_words, capacity;
  vkf_arena arena;
} vkf_evaluator;

/* Call finish even if this fails. */
vkf_status vkf_task_evaluator_init(vkf_evaluator *evaluator, vkf_env *env, size_t n_references);
void vkf_task_evaluator_finish(vkf_evaluator *evaluator);
/* Counts a sentence: texts [1 + n_references], the hypothesis first. VKF_ERROR_ARGUMENT: one is not UTF-8. */
vkf_status vkf_task_evaluator_count(vkf_evaluator *evaluator, const char *const *texts, vkf_bleu_counts *bleu,
                                    vkf_chrf_counts *chrf);

#endif

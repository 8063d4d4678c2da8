/* A wrong exp, for LD_PRELOAD: the scalar path then expects other numbers than any device computes. */
#include <math.h>

__attribute__((visibility("default"))) double exp(double x);

double exp(double x) {
  return exp2(1.5 * x);
}

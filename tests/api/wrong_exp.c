/* A wrong exp() for LD_PRELOAD: with it the scalar path expects numbers that no device computes. */
#include <math.h>

__attribute__((visibility("default"))) double exp(double x);

double exp(double x) {
  return exp2(1.5 * x);
}

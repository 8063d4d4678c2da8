// Counts the turns of a loop so that the loads of a turn need not wait for the turn before. This is for lavapipe, which
// keeps what a loop carries in vectors of lanes. To load at an address that all lanes share, it takes the counter from
// the first lane that still runs, so it must know which lanes run, and it works that out at the end of each turn. Lane
// 0's counter needs no such knowledge. Only for loops that all lanes leave together:
//
//   uint counter = ZERO_OF_LANES, turn;
//   do {
//     turn = of_first_lane(counter);
//     ...
//     counter++;
//   } while (turn + 1 < turns);
//
// A driver that knows that all lanes have the same counter drops the broadcast, and the loads wait again. So the
// counter begins with a zero that, as far as the driver can tell, depends on the lane.
#define ZERO_OF_LANES (gl_SubgroupInvocationID >> 31)
uint of_first_lane(uint counter) { return subgroupBroadcast(counter, 0); }

// Which keys of a mask a workgroup with tiles of keys looks at.
shared uint first_seen, last_seen; // of the mask

// Moves `from` past whole blocks before the first key that the mask has, and `end` to behind its last key.
void trim(Place me, inout uint from, inout uint end) {
  const uint row = mask_at(me, 0);
  end = max(end, from);
  uint first = end, last = from;
  if (gl_LocalInvocationID.x == 0) {
    first_seen = end;
    last_seen = from;
  }
  barrier();
  for (uint s = from + gl_LocalInvocationID.x; s < end; s += gl_WorkGroupSize.x) {
    if (mask[row + s] == 0) continue;
    first = min(first, s);
    last = s + 1;
  }
  atomicMin(first_seen, first);
  atomicMax(last_seen, last);
  barrier();
  from += (first_seen - from) / VKF_KEY_BLOCK * VKF_KEY_BLOCK;
  end = last_seen;
}

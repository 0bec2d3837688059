/* The step and commit protocol of a job: global steps, commits, rounds, the ledger. See README.md.
 *
 * Three worker slots, four virtual ranks (bit masks), two buckets, one head. A handler of a core
 * (one event in, effects out) is one atomic transition. One FIFO channel per ordered pair of
 * processes, no order between channels.
 * Values are symbolic. A version is its number (0 = none) and a poison bit: it mixes versions, or
 * was made without a context. A sum is the mask of the ranks in it. Ledger lines are the mask of
 * their versions.
 *
 * Options, each -DNAME=n, 0 when absent:
 *   STEPS      global steps of the job (2)       CAP    capacity of a channel (8)
 *   CRASH      processes that die                LOST   living workers that are taken for lost
 *   RESTART    restarts of the head              CUT    one pair of workers that cannot talk
 *   GAP        broken links between workers      SLOW   deadlines missed without a cause
 *   JOIN       slot 2 says Hello at some time    LEAVE  a member's device is revoked
 *   FRESH      starts with no worker known       CHECKPOINT  a client asks for a checkpoint
 *   ACK        ledger lines between two Acknowledge (0: lines are forgotten at Install only)
 *   M_...      a deliberate bug (README.md)      REACH  the end is forbidden: must be violated
 */
#ifndef STEPS
#define STEPS 2
#endif
#ifndef CAP
#define CAP 8
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef RESTART
#define RESTART 0
#endif
#ifndef CUT
#define CUT 0
#endif
#ifndef GAP
#define GAP 0
#endif
#ifndef SLOW
#define SLOW 0
#endif
#ifndef JOIN
#define JOIN 0
#endif
#ifndef LEAVE
#define LEAVE 0
#endif
#ifndef FRESH
#define FRESH 0
#endif
#ifndef CHECKPOINT
#define CHECKPOINT 0
#endif

#ifndef ACK
#define ACK 0
#endif

#define NONE 0
#define FIRST 1                 /* where the job starts: seed or checkpoint */
#define LAST (FIRST + STEPS)
#define ALL 15                  /* all virtual ranks */
#define GENERATIONS_MAX 40      /* more rounds than any run can need: rounds without end */

/* Process of a slot. */
#define Off 0
#define Run 1
#define Dead 2
#define Gone 3                  /* released */
/* Worker phases. */
#define kSealed 0
#define kLoading 1
#define kReady 2
#define kActive 3
#define kPaused 4
/* The engine's operations that change the version. */
#define kNoOperation 0
#define kLoad 1
#define kUpdate 2
/* Head phases. */
#define kIdle 0
#define kPreparing 1
#define kInstalling 2
#define kNormal 3
#define kDraining 4
#define FromCheckpoint 3        /* beside the slots 0..2 of FromPeer */
/* Flags of a peer message. */
#define fPoison 1
#define fDrain 2

mtype = { Contrib, Reduced, Fetch, State,                                     /* peers */
          Prepare, Install, Go, Release, Drain, Acknowledge, WriteCheckpoint, /* of the head */
          Report, Ready, Drained, Committed, Suspect, CheckpointWritten,      /* to the head */
          /* events of a worker that are not messages */
          PartSummed, UpdateApplied, VersionLoaded, DataUnreadable, Tick,
          /* events of the head that are not messages of members */
          Hello, Allocation, WorkerExited, WorkerLost, DrainTimeout, Restart };

/* type, generation, step or version, bucket or ledger lines, ranks, flags; from * 3 + to */
chan peer[9] = [CAP] of { mtype, byte, byte, byte, byte, byte };
/* type, generation, target or version, members, source, ledger through */
chan to_worker[3] = [CAP] of { mtype, byte, byte, byte, byte, byte };
/* type, generation, version or awaited slot */
chan to_head[3] = [CAP] of { mtype, byte, byte };

/* Workers. */
byte up[3], gen[3], pending[3], phase[3], operation[3];
byte ver[3], ctx[3], lines[3];              /* version, its contexts (ranks), lines to tell again */
byte target[3], members[3], source[3], own[3], through[3];
byte sum0[3], sum1[3], staged[3];           /* owned sums; 1, 2 = bucket 0, 1; 4 = drain flag */
byte load_lines[3], load_ctx[3];
bool poison[3], grad_poison[3], load_poison[3], installed[3], summed[3], drain_wanted[3];
bool drain_sum[3], stalled[3], suspecting[3], asked[3], begun[3];

/* Head, journal. */
byte jgen, jknown, jcheckpoint, ledger;
/* Head, volatile. */
byte hgen, hphase, known, warm, leaving, placed, reported, ready, drained, killed;
byte hver[3], named[3], suspected, written, htarget;
bool checkpoint_wanted, done;

/* Environment, and what only properties look at. */
byte crashes, losses, restarts, gaps, slows, cut, broken, revoked, started, newest;
bool cut_done, left_once;
#ifdef M_VOLATILELEDGER
byte jledger;
#endif

hidden byte i;                              /* loops inside d_step */

/* Never set: they name the property in what SPIN prints. README.md describes them. */
hidden byte S1, S2, S3, S4, S5, S6, F, G, L1, L2;
#define PROPERTY(name, condition) assert((condition) || name)

#define BIT(n) (1 << (n))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define FIRST_OF(m) (((m) & 1) -> 0 : (((m) & 2) -> 1 : 2))
#define SECOND_OF(m) (COUNT(m) == 1 -> FIRST_OF(m) : FIRST_OF((m) & ((m) - 1)))
#define INDEX(m, w) COUNT((m) & (BIT(w) - 1))
#define RANKS(m, w) (!((m) & BIT(w)) -> 0 : (COUNT(m) == 1 -> 15 : \
  (COUNT(m) == 2 -> (INDEX(m, w) == 0 -> 3 : 12) : \
  (INDEX(m, w) == 0 -> 3 : (INDEX(m, w) == 1 -> 4 : 8)))))
#define OWNER0(w) FIRST_OF(members[w])      /* member b mod n */
#define OWNER1(w) SECOND_OF(members[w])
#define PAIR(a, b) BIT((a) + (b) - 1)
#define FAULTED(x) (up[x] == Dead || (killed & BIT(x)))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* What its receiver drops for its generation is not sent, or taken out, at once: it can have no
 * effect, since promised generations only grow. The bugs that take the fences away see it all. */
#if defined(M_NOFENCE) || defined(M_NOSEAL) || defined(M_NOJOURNAL)
#define STALE_FOR(b, G) false
#define STALE_AT_HEAD(w) false
#define KEEP_STALE
#else
#define STALE_FOR(b, G) ((G) < gen[b])
#define STALE_AT_HEAD(w) (gen[w] < hgen || !(known & BIT(w)))
#endif

#define SEND_PEER(a, b, T, S, B, M, F) \
  if \
  :: up[b] == Run && cut != (BIT(a) | BIT(b)) && !STALE_FOR(b, gen[a]) -> \
     assert(nfull(peer[(a) * 3 + (b)])); peer[(a) * 3 + (b)]!T, gen[a], S, B, M, F \
  :: else -> skip \
  fi
#define SEND_HEAD(w, T, V) \
  if \
  :: T == CheckpointWritten || !STALE_AT_HEAD(w) -> \
     assert(nfull(to_head[w])); to_head[w]!T, gen[w], V \
  :: else -> skip \
  fi
#define SEND_WORKER(w, T, V, P, S, L) \
  if \
  :: up[w] == Run -> assert(nfull(to_worker[w])); to_worker[w]!T, hgen, V, P, S, L \
  :: else -> skip \
  fi

/* --- worker ---------------------------------------------------------------------------------- */

inline reset_step(w) {
  summed[w] = 0; staged[w] = 0; grad_poison[w] = 0; drain_sum[w] = 0; suspecting[w] = 0;
  sum0[w] = 0; sum1[w] = 0
}

/* The promise of `pending`: nothing older can change this worker any more. */
inline seal(w) {
#ifdef M_INPLACE
  if :: (staged[w] & 3) != 0 -> poison[w] = 1 :: else -> skip fi;
#endif
  phase[w] = kSealed; installed[w] = 0; drain_wanted[w] = 0; stalled[w] = 0; asked[w] = 0;
  own[w] = 0; members[w] = 0; target[w] = NONE; source[w] = 0; through[w] = 0;
  load_lines[w] = 0; load_ctx[w] = 0; load_poison[w] = 0;
#ifdef M_KEEPACC
  summed[w] = 0; staged[w] = 0; grad_poison[w] = 0; drain_sum[w] = 0; suspecting[w] = 0;
#else
  reset_step(w);
#endif
#ifndef KEEP_STALE
  for (i : 0 .. 2) {
    do
    :: nempty(peer[i * 3 + w]) -> peer[i * 3 + w]?t, g, s, b, m, f;
       PROPERTY(F, g < gen[w])
    :: else -> break
    od
  }
#endif
}

inline obey_prepare(w) {
  gen[w] = pending[w]; pending[w] = 0;
  seal(w);
  SEND_HEAD(w, Report, ver[w])
}

inline forget_lines(w, v) { lines[w] = lines[w] & ~((1 << ((v) + 1)) - 1) }

inline report_ready(w) { phase[w] = kReady; SEND_HEAD(w, Ready, ver[w]) }

inline write_checkpoint(w) {
  asked[w] = 0; begun[w] = 1;
  PROPERTY(S1, !poison[w] && ctx[w] == ALL);
  SEND_HEAD(w, CheckpointWritten, ver[w])
}

/* s target, b members, m source, f ledger through */
inline handle_install(w) {
  installed[w] = 1; target[w] = s; members[w] = b; source[w] = m; own[w] = RANKS(b, w);
  through[w] = f;
  forget_lines(w, f);
  for (i : 0 .. 2) {
    PROPERTY(S2, i == w || up[i] != Run || gen[i] != gen[w] || (own[i] & own[w]) == 0)
  }
  if
  :: own[w] == 0 ->                     /* stands by as a source until it is released */
#ifdef M_EARLYRELEASE
     up[w] = Gone
#else
     skip
#endif
  :: own[w] != 0 && ver[w] == s -> report_ready(w)
  :: own[w] != 0 && ver[w] != s ->
     PROPERTY(S6, ver[w] < s);
     phase[w] = kLoading;
     if
     :: m == FromCheckpoint -> operation[w] = kLoad; load_ctx[w] = ALL
     :: else ->
        SEND_PEER(w, m, Fetch, s, 0, 0, 0);
#ifdef M_JOINERCOUNTS
        ver[w] = s; poison[w] = 1; ctx[w] = ALL;
        report_ready(w)
#endif
     fi
  fi
}

inline handle_head_message(w) {
  if
  :: t == Prepare && g > MAX(gen[w], pending[w]) ->
#ifdef M_NOSEAL
     pending[w] = g;
     if :: known & BIT(w) -> to_head[w]!Report, g, ver[w] :: else -> skip fi
#else
     pending[w] = g;
#ifdef M_TORNUPDATE
     obey_prepare(w)
#else
     if :: operation[w] == kNoOperation -> obey_prepare(w) :: else -> skip fi
#endif
#endif
#ifdef M_NOSEAL
  :: t == Install && g == pending[w] -> gen[w] = g; pending[w] = 0; seal(w); handle_install(w)
#else
  :: t == Install && g == gen[w] && phase[w] == kSealed && !installed[w] -> handle_install(w)
#endif
  :: t == Go && g == gen[w] && phase[w] == kReady ->
     phase[w] = kActive;
#ifndef M_NORETELL
     for (i : FIRST + 1 .. LAST) {
       if :: lines[w] & BIT(i) -> SEND_HEAD(w, Committed, i) :: else -> skip fi
     }
#endif
  :: t == Release && g >= gen[w] -> up[w] = Gone
  :: t == Drain && g == gen[w] && phase[w] == kActive -> drain_wanted[w] = 1
  :: t == Acknowledge && g == gen[w] -> forget_lines(w, s)
  :: t == WriteCheckpoint && g == gen[w] && !begun[w] ->
     if
     :: phase[w] == kPaused || (phase[w] == kActive && ver[w] == LAST) -> write_checkpoint(w)
     :: else -> asked[w] = 1
     fi
  :: else -> skip
  fi
}

/* All buckets are staged: the update begins. */
inline advance(w) {
  if
  :: phase[w] == kActive && operation[w] == kNoOperation && !stalled[w] && (staged[w] & 3) == 3 ->
     operation[w] = kUpdate
  :: else -> skip
  fi
}

/* The owner of a bucket counts; with all ranks in, it tells the members. */
inline count0(w, M, F) {
  PROPERTY(S5, (sum0[w] & (M)) == 0);
  sum0[w] = sum0[w] | (M);
  if :: (F) & fPoison -> grad_poison[w] = 1 :: else -> skip fi;
  if :: (F) & fDrain -> drain_sum[w] = 1 :: else -> skip fi;
  if
  :: sum0[w] == ALL ->
     for (i : 0 .. 2) {
       if
       :: i != w && (members[w] & BIT(i)) ->
          SEND_PEER(w, i, Reduced, ver[w], 0, ALL, grad_poison[w] | (drain_sum[w] -> fDrain : 0))
       :: else -> skip
       fi
     }
     staged[w] = staged[w] | 1 | (drain_sum[w] -> 4 : 0);
     advance(w)
  :: else -> skip
  fi
}

inline count1(w, M, F) {
  PROPERTY(S5, (sum1[w] & (M)) == 0);
  sum1[w] = sum1[w] | (M);
  if :: (F) & fPoison -> grad_poison[w] = 1 :: else -> skip fi;
  if
  :: sum1[w] == ALL ->
     for (i : 0 .. 2) {
       if
       :: i != w && (members[w] & BIT(i)) ->
          SEND_PEER(w, i, Reduced, ver[w], 1, ALL, grad_poison[w])
       :: else -> skip
       fi
     }
     staged[w] = staged[w] | 2;
     advance(w)
  :: else -> skip
  fi
}

/* Fenced and not early: what is left belongs to the step that this worker runs. */
inline handle_peer_message(w) {
  if
#ifndef M_NOFENCE
  :: g < gen[w] -> skip
  :: g > gen[w] -> PROPERTY(F, false)
#endif
  :: else ->
     if
     :: t == Fetch ->
        PROPERTY(S6, phase[w] != kActive && operation[w] == kNoOperation && ver[w] == s);
#ifdef M_LOSELINES
        SEND_PEER(w, x, State, s, 0, ctx[w], poison[w])
#else
        SEND_PEER(w, x, State, s, lines[w], ctx[w], poison[w])
#endif
#ifdef M_JOINERCOUNTS
     :: t == State && ver[w] == s -> poison[w] = f & fPoison; ctx[w] = m
#endif
     :: t == State && phase[w] == kLoading && operation[w] == kNoOperation && !stalled[w] &&
        s == target[w] && x == source[w] ->
        operation[w] = kLoad; load_lines[w] = b; load_ctx[w] = m; load_poison[w] = f & fPoison
     :: t == Contrib && phase[w] == kActive && s == ver[w] ->
        if :: b == 0 -> count0(w, m, f) :: else -> count1(w, m, f) fi
     :: t == Reduced && phase[w] == kActive && s == ver[w] ->
        staged[w] = staged[w] | (b + 1) | ((f & fDrain) -> 4 : 0);
        if :: f & fPoison -> grad_poison[w] = 1 :: else -> skip fi;
        advance(w)
     :: else -> skip
     fi
  fi
}

/* The local steps of all own ranks: one contribution to each bucket. */
inline handle_part_summed(w) {
  summed[w] = 1;
  if :: (ctx[w] & own[w]) != own[w] -> poison[w] = 1 :: else -> skip fi;
#ifdef M_EARLYDISCARD
  ctx[w] = ctx[w] & ~own[w];
#endif
  f = poison[w] | (drain_wanted[w] -> fDrain : 0);
  if
  :: OWNER0(w) == w -> count0(w, own[w], f)
  :: else -> SEND_PEER(w, OWNER0(w), Contrib, ver[w], 0, own[w], f)
  fi;
  if
  :: OWNER1(w) == w -> count1(w, own[w], poison[w])
  :: else -> SEND_PEER(w, OWNER1(w), Contrib, ver[w], 1, own[w], poison[w])
  fi
}

inline handle_update_applied(w) {
  if :: grad_poison[w] -> poison[w] = 1 :: else -> skip fi;
  operation[w] = kNoOperation;
  ver[w]++;
#ifdef M_EARLYCOUNT
  ctx[w] = own[w];
#else
  ctx[w] = ALL;                         /* they came with bucket 0 */
#endif
  lines[w] = lines[w] | BIT(ver[w]);
  PROPERTY(S3, !poison[w]);
  PROPERTY(S1, ctx[w] == ALL);
  newest = MAX(newest, ver[w]);
  e = staged[w] & 4;
  reset_step(w);
  if
  :: phase[w] != kActive -> skip                                    /* only with M_TORNUPDATE */
#ifndef M_NOSEAL
  :: phase[w] == kActive && pending[w] != 0 -> obey_prepare(w)      /* the line follows after Go */
#endif
  :: else ->
     SEND_HEAD(w, Committed, ver[w]);
#ifdef M_FORGETTOLD
     lines[w] = 0;
#endif
     if :: asked[w] -> write_checkpoint(w) :: else -> skip fi;
     if
     :: e && ver[w] < LAST -> phase[w] = kPaused; SEND_HEAD(w, Drained, ver[w])
     :: else -> skip
     fi
  fi
}

inline handle_version_loaded(w) {
  operation[w] = kNoOperation;
  ver[w] = target[w]; ctx[w] = load_ctx[w]; poison[w] = load_poison[w];
  lines[w] = lines[w] | load_lines[w];
  load_lines[w] = 0; load_ctx[w] = 0; load_poison[w] = 0;
  forget_lines(w, through[w]);
  if
  :: pending[w] != 0 -> obey_prepare(w)
  :: else -> report_ready(w)
  fi
}

inline handle_data_unreadable(w) {
  operation[w] = kNoOperation; load_lines[w] = 0; load_ctx[w] = 0; load_poison[w] = 0;
  if
  :: pending[w] != 0 -> obey_prepare(w)
  :: else -> stalled[w] = 1; suspecting[w] = 1; SEND_HEAD(w, Suspect, source[w])
  fi
}

/* The members for which w waits after it has done all that it can: a mask. */
#define NOT_COVERED(w, sum) ((!(sum & RANKS(members[w], 0)) -> members[w] & 1 : 0) | \
  (!(sum & RANKS(members[w], 1)) -> members[w] & 2 : 0) | \
  (!(sum & RANKS(members[w], 2)) -> members[w] & 4 : 0))
#define AWAITED(w) (phase[w] == kLoading && source[w] != FromCheckpoint -> BIT(source[w]) : \
  (phase[w] != kActive || ver[w] == LAST || !summed[w] -> 0 : \
   ((staged[w] & 1) -> 0 : (OWNER0(w) != w -> BIT(OWNER0(w)) : NOT_COVERED(w, sum0[w]))) | \
   ((staged[w] & 2) -> 0 : (OWNER1(w) != w -> BIT(OWNER1(w)) : NOT_COVERED(w, sum1[w])))))

/* Deadlines pass between the two ends of a broken link, and SLOW ones without a cause. */
#define LINK_BROKE(w) ((broken & BIT(w)) && (AWAITED(w) & broken))
inline handle_tick(w) {
  if :: LINK_BROKE(w) -> skip :: else -> slows++ fi;
  suspecting[w] = 1;
  e = AWAITED(w);
  for (i : 0 .. 2) {
    if :: e & BIT(i) -> SEND_HEAD(w, Suspect, i) :: else -> skip fi
  }
}

/* must_wait(): an early step message stays in the channel, it is never dropped. */
#ifdef M_NOFENCE
#define OF_GEN(w) _
#else
#define OF_GEN(w) eval(gen[w])
#endif
#ifdef M_DROPFUTURE
#define EARLY(k, w) false
#else
#define EARLY(k, w) (peer[k]?[Contrib, OF_GEN(w), eval(ver[w] + 1), _, _, _] || \
  peer[k]?[Reduced, OF_GEN(w), eval(ver[w] + 1), _, _, _] || (phase[w] != kActive && \
  (peer[k]?[Contrib, OF_GEN(w), _, _, _, _] || peer[k]?[Reduced, OF_GEN(w), _, _, _, _])))
#endif
#define CAN_TAKE(k, w) (nempty(peer[k]) && !EARLY(k, w))
#define RUNS(w) (!done && up[w] == Run)

proctype Worker(byte w) {
  mtype t, event;
  byte x, g, s, b, m, f, e;
end:
  do
  :: atomic {
       if
       :: RUNS(w) && CAN_TAKE(((w + 1) % 3) * 3 + w, w) ->
          x = (w + 1) % 3; peer[x * 3 + w]?t, g, s, b, m, f; event = Fetch
       :: RUNS(w) && CAN_TAKE(((w + 2) % 3) * 3 + w, w) ->
          x = (w + 2) % 3; peer[x * 3 + w]?t, g, s, b, m, f; event = Fetch
       :: RUNS(w) && nempty(to_worker[w]) -> to_worker[w]?t, g, s, b, m, f; event = Prepare
       :: RUNS(w) && phase[w] == kActive && !summed[w] && ver[w] < LAST -> event = PartSummed
       :: RUNS(w) && operation[w] == kUpdate -> event = UpdateApplied
       :: RUNS(w) && operation[w] == kLoad -> event = VersionLoaded
       :: RUNS(w) && operation[w] == kLoad && source[w] != FromCheckpoint &&
          up[source[w]] == Dead ->
          event = DataUnreadable
#if (CUT || GAP || SLOW) && !defined(M_NOSUSPECT)
       :: RUNS(w) && !suspecting[w] && operation[w] == kNoOperation &&
          (LINK_BROKE(w) || (slows < SLOW && AWAITED(w) != 0)) -> event = Tick
#endif
       fi;
       d_step {
         if
         :: event == Fetch -> handle_peer_message(w)
         :: event == Prepare -> handle_head_message(w)
         :: event == PartSummed -> handle_part_summed(w)
         :: event == UpdateApplied -> handle_update_applied(w)
         :: event == VersionLoaded -> handle_version_loaded(w)
         :: event == DataUnreadable -> handle_data_unreadable(w)
         :: event == Tick -> handle_tick(w)
         fi;
         t = 0; event = 0; x = 0; g = 0; s = 0; b = 0; m = 0; f = 0; e = 0
       }
     }
  od
}

/* --- head ------------------------------------------------------------------------------------ */

/* Everything of the old generation is void now; CheckpointWritten is a fact of any generation. */
inline drop_stale_at_head() {
#ifndef KEEP_STALE
  for (i : 0 .. 2) {
    n = len(to_head[i]);
    do
    :: n > 0 -> n--; to_head[i]?t, g, v;
       if :: t == CheckpointWritten -> to_head[i]!t, g, v :: else -> skip fi
    :: else -> break
    od
  }
#endif
  skip
}

inline begin_round() {
  reported = 0; ready = 0; drained = 0; placed = 0; htarget = NONE;
  known = known | (warm & ~leaving); warm = warm & leaving;        /* admit_warm_workers */
  if
  :: known == 0 -> hphase = kIdle; written = NONE; jknown = 0      /* wait_for_workers */
  :: else ->
     hphase = kPreparing;
     hgen++;
     PROPERTY(L2, hgen < GENERATIONS_MAX);
#ifndef M_NOJOURNAL
     jgen = hgen; jknown = known;       /* before anything of this generation is sent */
#endif
     drop_stale_at_head();
     for (i : 0 .. 2) {
       if :: known & BIT(i) -> SEND_WORKER(i, Prepare, 0, 0, 0, 0) :: else -> skip fi
     }
  fi
}

inline install() {
  hphase = kInstalling;
  v = NONE; n = FromCheckpoint;
  for (i : 0 .. 2) {
    if
    :: (known & BIT(i)) && hver[i] > v -> v = hver[i]; n = i
    :: else -> skip
    fi
  }
  if
  :: v == NONE ->
     v = jcheckpoint; newest = v;
     for (i : 0 .. 2) { PROPERTY(S1, !(started & BIT(i)) || FAULTED(i)) }
  :: else -> PROPERTY(S4, v + 1 >= newest)
  fi;
  htarget = v;
  placed = known & ~leaving;
  if :: placed == 0 -> placed = known :: else -> skip fi;          /* the leave waits */
  for (i : 0 .. 2) {
    if :: known & BIT(i) -> SEND_WORKER(i, Install, v, placed, n, ledger) :: else -> skip fi
  }
}

inline ask_for_checkpoint() {
  if
  :: checkpoint_wanted -> SEND_WORKER(FIRST_OF(placed), WriteCheckpoint, 0, 0, 0, 0)
  :: else -> skip
  fi
}

inline go() {
  hphase = kNormal;
  for (i : 0 .. 2) {
    PROPERTY(S4, !(placed & BIT(i)) || up[i] != Run ||
                 (ver[i] == htarget && !poison[i] && ctx[i] == ALL))
  }
  n = known & ~placed;
  known = placed; jknown = known; jgen = hgen; started = placed;
#ifdef M_VOLATILELEDGER
  jledger = ledger;
#endif
  for (i : 0 .. 2) {
    if
    :: placed & BIT(i) -> SEND_WORKER(i, Go, 0, 0, 0, 0)
    :: n & BIT(i) -> SEND_WORKER(i, Release, 0, 0, 0, 0)
    :: else -> skip
    fi
  }
  reported = 0; ready = 0;
  ask_for_checkpoint()
}

inline drain() {
  hphase = kDraining;
  for (i : 0 .. 2) {
    if :: placed & BIT(i) -> SEND_WORKER(i, Drain, 0, 0, 0, 0) :: else -> skip fi
  }
}

inline forget_worker(x) {
  known = known & ~BIT(x); warm = warm & ~BIT(x); leaving = leaving & ~BIT(x);
  hver[x] = NONE; named[x] = 0
}

/* is_gone: any loss of a known worker, in any phase, starts a new round. */
inline is_gone(x) {
  n = known & BIT(x);
  forget_worker(x);
  if
#ifdef M_NORESTARTROUND
  :: n != 0 && hphase != kPreparing && hphase != kInstalling -> begin_round()
#else
  :: n != 0 -> begin_round()
#endif
  :: else -> skip
  fi
}

inline take_written_checkpoint() {
  if
  :: written != NONE && written <= ledger -> jcheckpoint = MAX(jcheckpoint, written); written = NONE
  :: else -> skip
  fi
}

inline handle_committed() {
  hver[x] = MAX(hver[x], v);
  if
  :: v <= ledger -> skip                                            /* repeated */
  :: v == ledger + 1 ->
     ledger = v; suspected = 0; named[0] = 0; named[1] = 0; named[2] = 0;

#if ACK
     for (i : 0 .. 2) {
       if
       :: (placed & BIT(i)) && (ledger - FIRST) % ACK == 0 ->
          SEND_WORKER(i, Acknowledge, ledger, 0, 0, 0)
       :: else -> skip
       fi
     }
#endif
     take_written_checkpoint()
  :: v > ledger + 1 -> PROPERTY(G, false)
  fi
}

/* v: the awaited slot. The member to evict is the one that holds nothing, if the other one holds a
 * version; else the one that was named more often; else the one with the older version; else the
 * later member. */
inline handle_suspect() {
  if
  :: (known & BIT(v)) && v != x && hphase != kPreparing ->
     named[v]++;
     if
     :: !(suspected & PAIR(x, v)) -> suspected = suspected | PAIR(x, v); begin_round()
     :: else ->
        if
        :: hver[x] == NONE && hver[v] != NONE -> e = x
        :: hver[x] != NONE && hver[v] == NONE -> e = v
        :: else ->
           if
           :: named[x] > named[v] -> e = x
           :: named[x] < named[v] -> e = v
           :: named[x] == named[v] && hver[x] < hver[v] -> e = x
           :: named[x] == named[v] && hver[x] > hver[v] -> e = v
           :: else -> e = MAX(x, v)
           fi
        fi;
        killed = killed | BIT(e);
        is_gone(e)
     fi
  :: else -> skip
  fi
}

inline handle_worker_message() {
  if
  :: !(known & BIT(x)) -> skip
  :: t == CheckpointWritten && (known & BIT(x)) ->
     if
     :: checkpoint_wanted ->
        checkpoint_wanted = 0;
#ifdef M_EARLYCHECKPOINT
        jcheckpoint = MAX(jcheckpoint, v)
#else
        written = v;
        take_written_checkpoint()
#endif
     :: else -> skip
     fi
  :: t != CheckpointWritten && (known & BIT(x)) && g != hgen -> skip
  :: else ->
     if
     :: t == Report && hphase == kPreparing ->
        hver[x] = v; reported = reported | BIT(x);
        if :: reported == known -> install() :: else -> skip fi
     :: t == Ready && hphase == kInstalling && (placed & BIT(x)) && v == htarget ->
        hver[x] = v; ready = ready | BIT(x);
        if :: ready == placed -> go() :: else -> skip fi
     :: t == Drained && (hphase == kNormal || hphase == kDraining) ->
        hver[x] = v; drained = drained | BIT(x);
        if :: hphase == kDraining && drained == placed -> begin_round() :: else -> skip fi
     :: t == Committed -> handle_committed()
     :: t == Suspect -> handle_suspect()
     :: else -> skip
     fi
  fi
}

#define ABSENT (up[0] == Off || up[1] == Off || up[2] == Off)       /* a worker is missing */
#define HOLDS_LAST(x) (!(placed & BIT(x)) || hver[x] == LAST)
#define NEWEST_KNOWN MAX(hver[0], MAX(hver[1], hver[2]))

/* settle: finish_if_done, consider_change. */
inline settle() {
  if
  :: (hphase == kNormal || hphase == kDraining) && ledger == LAST && !checkpoint_wanted &&
     HOLDS_LAST(0) && HOLDS_LAST(1) && HOLDS_LAST(2) -> done = 1
  :: hphase == kIdle && (warm & ~leaving) && !ABSENT -> begin_round()
  :: hphase == kNormal && NEWEST_KNOWN != LAST &&
     (((placed & leaving) && ((known | warm) & ~leaving)) ||
      (!ABSENT && (warm & ~leaving))) -> drain()
  :: else -> skip
  fi
}

/* The inbox is lost with the process; of what it sent, each worker has got all or nothing. */
inline handle_restart() {
  restarts++;
  for (i : 0 .. 2) {
    do :: nempty(to_head[i]) -> to_head[i]?t, g, v :: else -> break od
  }
  killed = killed | ((known | warm) & ~jknown);
  hgen = jgen; known = jknown; warm = 0; leaving = 0; suspected = 0; written = NONE;
  checkpoint_wanted = 0;
  for (i : 0 .. 2) { hver[i] = NONE; named[i] = 0 }
#ifdef M_VOLATILELEDGER
  ledger = jledger;
#endif
  begin_round()
}

#define EXITED(x) (up[x] == Dead || up[x] == Gone)

proctype Head() {
  mtype t, event;
  byte x, g, v, n, e;
end:
  do
  :: atomic {
       if
       :: !done && nempty(to_head[0]) -> x = 0; to_head[0]?t, g, v; event = Report
       :: !done && nempty(to_head[1]) -> x = 1; to_head[1]?t, g, v; event = Report
       :: !done && nempty(to_head[2]) -> x = 2; to_head[2]?t, g, v; event = Report
       :: !done && ((known | warm) & 1) && EXITED(0) -> x = 0; event = WorkerExited
       :: !done && ((known | warm) & 2) && EXITED(1) -> x = 1; event = WorkerExited
       :: !done && ((known | warm) & 4) && EXITED(2) -> x = 2; event = WorkerExited
       :: !done && hphase == kDraining -> event = DrainTimeout
#if LOST
       :: !done && losses < LOST && (known & 1) && up[0] == Run -> x = 0; event = WorkerLost
       :: !done && losses < LOST && (known & 2) && up[1] == Run -> x = 1; event = WorkerLost
       :: !done && losses < LOST && (known & 4) && up[2] == Run -> x = 2; event = WorkerLost
#endif
#if JOIN || FRESH
       :: !done && up[0] == Off -> x = 0; event = Hello
       :: !done && up[1] == Off -> x = 1; event = Hello
       :: !done && up[2] == Off -> x = 2; event = Hello
#endif
#if LEAVE
       :: !done && !left_once && (known & 1) -> revoked = 1; event = Allocation
       :: !done && !left_once && (known & 2) -> revoked = 2; event = Allocation
       :: !done && !left_once && (known & 4) -> revoked = 4; event = Allocation
       :: !done && left_once && (revoked & known & ~leaving) -> event = Allocation
#endif
#if RESTART
       :: !done && restarts < RESTART -> event = Restart;
          if :: skip :: nempty(to_worker[0]) -> x = 1 fi;
          if :: skip :: nempty(to_worker[1]) -> x = x | 2 fi;
          if :: skip :: nempty(to_worker[2]) -> x = x | 4 fi
#endif
       fi;
       d_step {
         if
         :: event == Report -> handle_worker_message()
         :: event == WorkerExited -> is_gone(x)
         :: event == WorkerLost -> losses++; killed = killed | BIT(x); is_gone(x)
         :: event == DrainTimeout -> begin_round()
         :: event == Hello -> up[x] = Run; warm = warm | BIT(x)
         :: event == Allocation -> left_once = 1; leaving = leaving | revoked
         :: event == Restart ->
            for (i : 0 .. 2) {
              do
              :: (x & BIT(i)) && nempty(to_worker[i]) -> to_worker[i]?t, g, v, _, _, _
              :: else -> break
              od
            }
            handle_restart()
         fi;
         settle();
         t = 0; event = 0; x = 0; g = 0; v = 0; n = 0; e = 0
       }
     }
  od
}

/* --- environment ----------------------------------------------------------------------------- */

inline wipe(k) { do :: nempty(peer[k]) -> peer[k]?_, _, _, _, _, _ :: else -> break od }
inline maybe_wipe(k) { if :: skip :: nempty(peer[k]) -> wipe(k) fi }

/* What a dead process has sent may or may not arrive. */
inline die(x) {
  up[x] = Dead;
  maybe_wipe(x * 3 + (x + 1) % 3); maybe_wipe(x * 3 + (x + 2) % 3);
  if
  :: skip
  :: nempty(to_head[x]) -> do :: nempty(to_head[x]) -> to_head[x]?_, _, _ :: else -> break od
  fi;
  d_step {
    wipe(((x + 1) % 3) * 3 + x); wipe(((x + 2) % 3) * 3 + x);
    do :: nempty(to_worker[x]) -> to_worker[x]?_, _, _, _, _, _ :: else -> break od;
    gen[x] = 0; pending[x] = 0; phase[x] = kSealed; operation[x] = kNoOperation; ver[x] = NONE;
    ctx[x] = 0; lines[x] = 0; target[x] = NONE; members[x] = 0; source[x] = 0; own[x] = 0;
    through[x] = 0; load_lines[x] = 0; load_ctx[x] = 0; load_poison[x] = 0; poison[x] = 0;
    installed[x] = 0; drain_wanted[x] = 0; stalled[x] = 0; asked[x] = 0; begun[x] = 0;
    reset_step(x)
  }
}

#define CAN_CRASH(x) (!done && crashes < CRASH && up[x] == Run && !(killed & BIT(x)))
#define CAN_REAP(x) (!done && up[x] == Run && (killed & BIT(x)))

proctype Environment() {
end:
  do
  :: atomic { CAN_CRASH(0) -> crashes++; die(0) }
  :: atomic { CAN_CRASH(1) -> crashes++; die(1) }
  :: atomic { CAN_CRASH(2) -> crashes++; die(2) }
  :: atomic { CAN_REAP(0) -> die(0) }
  :: atomic { CAN_REAP(1) -> die(1) }
  :: atomic { CAN_REAP(2) -> die(2) }
#if CUT
  :: atomic { !done && !cut_done -> cut_done = 1;
       if
       :: cut = 3; maybe_wipe(1); maybe_wipe(3)
       :: cut = 5; maybe_wipe(2); maybe_wipe(6)
       :: cut = 6; maybe_wipe(5); maybe_wipe(7)
       fi;
       broken = cut }
#endif
#if GAP
  :: atomic { !done && gaps < GAP && nempty(peer[1]) -> gaps++; broken = 3; wipe(1) }
  :: atomic { !done && gaps < GAP && nempty(peer[2]) -> gaps++; broken = 5; wipe(2) }
  :: atomic { !done && gaps < GAP && nempty(peer[3]) -> gaps++; broken = 3; wipe(3) }
  :: atomic { !done && gaps < GAP && nempty(peer[5]) -> gaps++; broken = 6; wipe(5) }
  :: atomic { !done && gaps < GAP && nempty(peer[6]) -> gaps++; broken = 5; wipe(6) }
  :: atomic { !done && gaps < GAP && nempty(peer[7]) -> gaps++; broken = 6; wipe(7) }
#endif
  od
}

#define COMPLETE(x) (!(placed & BIT(x)) || up[x] != Run || (ver[x] == LAST && !poison[x]))

/* Runs when no other process can run. */
proctype Monitor() {
end:
  timeout ->
#ifdef REACH
  assert(!done);
#endif
  PROPERTY(L1, done || (known == 0 && warm == 0));
  PROPERTY(S4, !done || (ledger == LAST && COMPLETE(0) && COMPLETE(1) && COMPLETE(2)))
}

init {
  d_step {
    jcheckpoint = FIRST; ledger = FIRST; newest = FIRST;
    checkpoint_wanted = CHECKPOINT;
#ifdef M_VOLATILELEDGER
    jledger = FIRST;
#endif
    known = (FRESH -> 0 : (JOIN -> 3 : 7));
    placed = known; started = known; jknown = known;
    if :: known != 0 -> hphase = kNormal; hgen = 1; jgen = 1 :: else -> skip fi;
    for (i : 0 .. 2) {
      if
      :: known & BIT(i) ->
         up[i] = Run; gen[i] = 1; phase[i] = kActive; installed[i] = 1; target[i] = FIRST;
         ver[i] = FIRST; ctx[i] = ALL; members[i] = known; own[i] = RANKS(known, i);
         through[i] = FIRST; hver[i] = FIRST
      :: (JOIN || FRESH) && !(known & BIT(i)) -> skip
      :: else -> up[i] = Gone
      fi
    }
    if :: placed != 0 -> ask_for_checkpoint() :: else -> skip fi
  }
  atomic {
    run Worker(0); run Worker(1); run Worker(2); run Head(); run Environment(); run Monitor()
  }
}

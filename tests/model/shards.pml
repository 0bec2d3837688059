/* A step, its commit and a round of a job with sharded state (docs/PROTOCOL.md, "Sharded state").
 * See README.md.
 *
 * Three worker slots, three shards (bit masks), one head, which is reliable here: step.pml has its
 * restarts, drains, ledger and checkpoints. With three members slot b owns shard b, and the next
 * one is its buddy; with two members both hold all; a member that is alone steps by itself. A
 * handler of a core is one atomic transition. One FIFO channel per ordered pair of workers.
 *
 * Options, each -DNAME=n, 0 when absent:
 *   STEPS   global steps of the job (2)        CRASH  workers that die
 *   LOST    living workers that are taken for lost, and act until they are reaped: frozen ones wake
 *   JOIN    slot 2 joins at some time
 *   M_...   a deliberate bug (README.md)       REACH  the end is forbidden: must be violated
 */
#ifndef STEPS
#define STEPS 2
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef JOIN
#define JOIN 0
#endif

#define NONE 0
#define FIRST 1                 /* where the job starts, and its only saved state */
#define LAST (FIRST + STEPS)
#define ALL 7                   /* all shards, and all slots */
#define Saved 3                 /* beside the slots 0..2 as a source */

/* Process of a slot. */
#define Off 0
#define Run 1
#define Dead 2
/* Phases of a worker. */
#define kSealed 0
#define kLoading 1
#define kReady 2
#define kActive 3
/* Phases of the head. */
#define kNormal 0
#define kPreparing 1
#define kInstalling 2

mtype = { Contrib, Reduced, Complete, Updated, Fetch, Shards };

/* type, generation, step or version, shards; from * 3 + to */
chan peer[9] = [8] of { mtype, byte, byte, byte };

/* Workers. A worker is ahead if its shards are those of the next version. */
byte up[3], gen[3], phase[3], ver[3], held[3], sums[3], complete[3], updated[3];
byte counted[3];                /* the members whose contribution the owner has */
byte members[3], target[3], wanted[3];
bool ahead[3], summed[3], makes[3];

/* Head. What it asks for and hears is at once at its receiver, unless that is dead. */
byte hgen, hphase, known, reports, ready, htarget, source[3], first;
byte rver[3], rheld[3], rsums[3];   /* what the workers have reported */
bool rahead[3], prepared[3], installed[3], going[3], done;

/* Environment, and what only properties look at. */
byte crashes, losses, killed, newest;
byte copies_lost;               /* workers lost since Go; one more if only one was there */
bool joined;

hidden byte i, j;

/* Never set: they name the property in what SPIN prints. README.md describes them. */
hidden byte H1, H2, H3, H4, H5, F, L1;
#define PROPERTY(name, condition) assert((condition) || name)

#define BIT(n) (1 << (n))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define FIRST_OF(m) (((m) & 1) -> 0 : (((m) & 2) -> 1 : 2))
#define SECOND_OF(m) (COUNT(m) == 1 -> FIRST_OF(m) : FIRST_OF((m) & ((m) - 1)))
/* Shards that a member owns, those of which it is the buddy, and both. */
#define OWNED(m, w) (!((m) & BIT(w)) -> 0 : (COUNT(m) == 3 -> BIT(w) : \
  (COUNT(m) == 1 -> ALL : (FIRST_OF(m) == (w) -> 5 : 2))))
#define BUDDY_OF(m, w) (COUNT(m) == 3 -> ((w) + 1) % 3 : \
  (FIRST_OF(m) == (w) -> SECOND_OF(m) : FIRST_OF(m)))
#define OWN(m, w) (!((m) & BIT(w)) -> 0 : (COUNT(m) == 3 -> (BIT(w) | BIT(((w) + 2) % 3)) : ALL))
#define REACHED(w) (ver[w] == NONE -> 0 : ver[w] + ahead[w])

/* What its receiver drops is not sent. The bug that takes the fence away sees it all. */
#ifdef M_NOFENCE
#define STALE_FOR(b, G) false
#else
#define STALE_FOR(b, G) ((G) < gen[b])
#endif

#define SEND(a, b, T, V, S) \
  if \
  :: up[b] == Run && !STALE_FOR(b, gen[a]) -> \
     assert(nfull(peer[(a) * 3 + (b)])); peer[(a) * 3 + (b)]!T, gen[a], V, S \
  :: else -> skip \
  fi

/* --- worker: a step -------------------------------------------------------------------------- */

inline reset_step(w) { summed[w] = 0; complete[w] = 0; updated[w] = 0; counted[w] = 0 }

inline commit(w) {
  ver[w]++; ahead[w] = 0; sums[w] = 0;
  newest = (newest > ver[w] -> newest : ver[w]);
  reset_step(w)
}

/* Begins its update when every sum exists twice, and commits when it has all parameters. */
inline advance(w) {
  if
#ifdef M_MISSEDCOMPLETE
  :: phase[w] == kActive && !ahead[w] && COUNT(complete[w]) >= 2 && sums[w] == held[w] ->
#else
  :: phase[w] == kActive && !ahead[w] && complete[w] == ALL ->
#endif
     PROPERTY(H1, sums[w] == held[w]);
     ahead[w] = 1; sums[w] = 0;
     for (i : 0 .. 2) {
       if
       :: i != w && (members[w] & BIT(i)) && (OWNED(members[w], w) & ~OWN(members[w], i)) ->
          SEND(w, i, Updated, ver[w], OWNED(members[w], w))
       :: else -> skip
       fi
     }
  :: else -> skip
  fi;
  if
  :: phase[w] == kActive && ahead[w] && (updated[w] | held[w]) == ALL -> commit(w)
  :: else -> skip
  fi
}

/* The buddy has the sums, so they exist twice: it tells all members. */
inline announce(w, S) {
  complete[w] = complete[w] | S;
  for (i : 0 .. 2) {
    if
    :: i != w && (members[w] & BIT(i)) -> SEND(w, i, Complete, ver[w], S)
    :: else -> skip
    fi
  }
}

inline count(w, M) {
  counted[w] = counted[w] | (M);
  if
  :: counted[w] == members[w] ->
     s = OWNED(members[w], w);
     sums[w] = sums[w] | s;
     SEND(w, BUDDY_OF(members[w], w), Reduced, ver[w], s);
#ifdef M_EARLYCOMPLETE
     announce(w, s);
     advance(w)
#endif
  :: else -> skip
  fi
}

inline contribute(w) {
  summed[w] = 1;
  if
  :: COUNT(members[w]) == 1 -> commit(w)
  :: else ->
     for (j : 0 .. 2) {
       if
       :: j != w && (members[w] & BIT(j)) -> SEND(w, j, Contrib, ver[w], 0)
       :: else -> skip
       fi
     }
     count(w, BIT(w))
  fi
}

/* A peer is at most one step ahead; what belongs to a later step waits. */
/* From slot x. */
inline handle_step_message(w) {
  if
  :: v != ver[w] || phase[w] != kActive -> skip
  :: else ->
     if
     :: t == Contrib -> count(w, BIT(x))
     :: t == Reduced -> sums[w] = sums[w] | s; announce(w, s); advance(w)
     :: t == Complete -> complete[w] = complete[w] | s; advance(w)
     :: t == Updated -> updated[w] = updated[w] | s; advance(w)
     :: else -> skip
     fi
  fi
}

/* --- worker: a round ------------------------------------------------------------------------- */

inline obey_prepare(w) {
  prepared[w] = 0; installed[w] = 0; going[w] = 0;
  gen[w] = hgen; phase[w] = kSealed; makes[w] = 0; wanted[w] = 0; members[w] = 0; target[w] = NONE;
  reset_step(w);
#ifdef M_FORGETSUMS
  sums[w] = 0;
#endif
#ifndef M_NOFENCE
  for (i : 0 .. 2) {
    do
    :: nempty(peer[i * 3 + w]) -> peer[i * 3 + w]?t, g, v, s; PROPERTY(F, g < gen[w])
    :: else -> break
    od
  }
#endif
  rver[w] = ver[w]; rahead[w] = ahead[w]; rheld[w] = held[w]; rsums[w] = sums[w];
  reports = reports | BIT(w)
}

inline fetch_missing(w) {
  wanted[w] = 0;
  for (i : 0 .. 2) {
    if
    :: !(held[w] & BIT(i)) && (ver[w] != target[w] || (OWN(members[w], w) & BIT(i))) ->
       if
       :: source[i] != w ->
          wanted[w] = wanted[w] | BIT(i);
          SEND(w, source[i], Fetch, target[w], BIT(i))
       :: else -> skip
       fi
    :: else -> skip
    fi
  }
  phase[w] = kLoading;
  if :: wanted[w] == 0 -> loaded(w) :: else -> skip fi
}

inline loaded(w) {
  ver[w] = target[w]; ahead[w] = 0; held[w] = held[w] | OWN(members[w], w);
  phase[w] = kReady;
  if :: gen[w] == hgen -> ready = ready | BIT(w) :: else -> skip fi
}

inline obey_install(w) {
  installed[w] = 0; target[w] = htarget; members[w] = known;
  if
  :: first == Saved -> ver[w] = NONE; ahead[w] = 0; held[w] = 0; sums[w] = 0; loaded(w)
  :: first != Saved && REACHED(w) == htarget -> sums[w] = 0; fetch_missing(w)
  :: first != Saved && REACHED(w) != htarget && ver[w] != NONE && ver[w] + 1 == htarget &&
     sums[w] == held[w] && held[w] != 0 ->
     makes[w] = 1; phase[w] = kLoading; SEND(w, first, Fetch, htarget, 0)
  :: else ->
     PROPERTY(H2, REACHED(w) <= htarget);
     /* Nobody fetches from it what it cannot make. */
     PROPERTY(H3, source[0] != w && source[1] != w && source[2] != w);
     ver[w] = NONE; ahead[w] = 0; held[w] = 0; sums[w] = 0; fetch_missing(w)
  fi
}

inline handle_round_message(w) {
  if
  :: t == Fetch ->
     PROPERTY(H4, (s & ~held[w]) == 0 || ver[w] == v);
     SEND(w, x, Shards, v, s)
  :: t == Shards && makes[w] -> makes[w] = 0; ahead[w] = 1; sums[w] = 0; fetch_missing(w)
  :: t == Shards && !makes[w] && phase[w] == kLoading ->
     wanted[w] = wanted[w] & ~s;
     if :: wanted[w] == 0 -> loaded(w) :: else -> skip fi
  :: else -> skip
  fi
}

inline obey_go(w) {
  going[w] = 0; phase[w] = kActive; held[w] = OWN(members[w], w); sums[w] = 0
}

/* Whether the first message of a channel is not early: not of a later generation or step, and no
 * request for a version that is not here yet. */
#define OF_STEP(k, w, T) (phase[w] != kReady && (peer[k]?[T, eval(gen[w]), eval(ver[w]), _] || \
  peer[k]?[T, eval(gen[w]), eval(ver[w] - 1), _]))
#define READABLE(k, w) (peer[k]??[Shards, eval(gen[w]), _, _] || \
  (ver[w] != NONE && peer[k]?[Fetch, eval(gen[w]), eval(ver[w] + ahead[w]), _]) || \
  OF_STEP(k, w, Contrib) || OF_STEP(k, w, Reduced) || \
  OF_STEP(k, w, Complete) || OF_STEP(k, w, Updated) || IS_STALE(k, w))
#ifdef M_NOFENCE
#define IS_STALE(k, w) (peer[k]?[_, eval(gen[w] - 1), _, _] || peer[k]?[_, eval(gen[w] - 2), _, _])
#else
#define IS_STALE(k, w) false
#endif
#define CAN_TAKE(w, f) (up[w] == Run && w != f && READABLE((f) * 3 + (w), w))

/* An answer passes requests that wait. */
inline take(w) {
  if
  :: peer[x * 3 + w]??[Shards, eval(gen[w]), _, _] ->
     peer[x * 3 + w]??Shards, eval(gen[w]), v, s;
     t = Shards
  :: else -> peer[x * 3 + w]?t, g, v, s
  fi;
  if
  :: t == Fetch || t == Shards -> handle_round_message(w)
  :: else -> handle_step_message(w)
  fi
}

#define CLEAR t = 0; x = 0; g = 0; v = 0; s = 0

proctype Worker(byte w) {
  mtype t;
  byte x, g, v, s;
end:
  do
  :: atomic {
       up[w] == Run && phase[w] == kActive && !summed[w] && ver[w] < LAST ->
       d_step { contribute(w); CLEAR }
     }
  :: atomic {
       up[w] == Run && prepared[w] && !(killed & BIT(w)) -> d_step { obey_prepare(w); CLEAR }
     }
  :: atomic {
       up[w] == Run && installed[w] && phase[w] == kSealed && !(killed & BIT(w)) ->
       d_step { obey_install(w); CLEAR }
     }
  :: atomic {
       up[w] == Run && going[w] && phase[w] == kReady && !(killed & BIT(w)) ->
       d_step { obey_go(w); CLEAR }
     }
  :: atomic { CAN_TAKE(w, 0) -> d_step { x = 0; take(w); CLEAR } }
  :: atomic { CAN_TAKE(w, 1) -> d_step { x = 1; take(w); CLEAR } }
  :: atomic { CAN_TAKE(w, 2) -> d_step { x = 2; take(w); CLEAR } }
  od
}

/* --- head ------------------------------------------------------------------------------------ */

inline begin_round() {
  hgen++; hphase = kPreparing; reports = 0; ready = 0; htarget = NONE; first = 0;
  for (i : 0 .. 2) {
    source[i] = 0; installed[i] = 0; going[i] = 0; rver[i] = 0; rahead[i] = 0; rheld[i] = 0;
    rsums[i] = 0;
    prepared[i] = ((known & BIT(i)) != 0)
  }
}

inline is_gone(x) {
  known = known & ~BIT(x);
  prepared[x] = 0; installed[x] = 0; going[x] = 0;
  copies_lost++;
  if :: known != 0 -> begin_round() :: else -> done = 1 fi
}

/* Whether a worker has a shard of the target, or will make it. */
#define REPORTED(w) (rver[w] == NONE -> 0 : rver[w] + rahead[w])
#define SUPPLIES(w, b) ((known & BIT(w)) && rver[w] != NONE && \
  ((REPORTED(w) == htarget && (rheld[w] & BIT(b))) || \
   (!rahead[w] && rver[w] + 1 == htarget && (rsums[w] & BIT(b)))))

inline install() {
  htarget = NONE; first = Saved;
  for (i : 0 .. 2) {
    if
#ifdef M_TARGETBACK
    :: (known & BIT(i)) && rver[i] > htarget -> htarget = rver[i]; first = i
#else
    :: (known & BIT(i)) && REPORTED(i) > htarget -> htarget = REPORTED(i); first = i
#endif
    :: else -> skip
    fi
  }
  for (j : 0 .. 2) {
    if
    :: SUPPLIES(0, j) -> source[j] = 0
    :: !SUPPLIES(0, j) && SUPPLIES(1, j) -> source[j] = 1
    :: !SUPPLIES(0, j) && !SUPPLIES(1, j) && SUPPLIES(2, j) -> source[j] = 2
    :: else -> first = Saved
    fi
  }
  if
  :: first == Saved -> htarget = FIRST; PROPERTY(H5, copies_lost >= 2)
  :: else -> PROPERTY(H5, copies_lost >= 2 || htarget + 1 >= newest)
  fi;
  hphase = kInstalling;
  for (i : 0 .. 2) {
    if :: known & BIT(i) -> installed[i] = 1 :: else -> skip fi
  }
}

#define COMMITTED(x) (!(known & BIT(x)) || (ver[x] == LAST && phase[x] == kActive))

proctype Head() {
end:
  do
  :: atomic { !done && (known & 1) && up[0] == Dead -> d_step { is_gone(0); i = 0 } }
  :: atomic { !done && (known & 2) && up[1] == Dead -> d_step { is_gone(1); i = 0 } }
  :: atomic { !done && (known & 4) && up[2] == Dead -> d_step { is_gone(2); i = 0 } }
  :: atomic { !done && losses < LOST && (known & 1) && up[0] == Run ->
       d_step { losses++; killed = killed | 1; is_gone(0); i = 0 } }
  :: atomic { !done && losses < LOST && (known & 2) && up[1] == Run ->
       d_step { losses++; killed = killed | 2; is_gone(1); i = 0 } }
  :: atomic { !done && losses < LOST && (known & 4) && up[2] == Run ->
       d_step { losses++; killed = killed | 4; is_gone(2); i = 0 } }
#if JOIN
  :: atomic {
       !done && !joined ->
       d_step { joined = 1; up[2] = Run; known = known | 4; begin_round(); i = 0 }
     }
#endif
  :: atomic { !done && hphase == kPreparing && reports == known -> d_step { install(); i = 0 } }
  :: atomic { !done && hphase == kInstalling && ready == known ->
       d_step {
         hphase = kNormal; copies_lost = (COUNT(known) == 1 -> 1 : 0);
         for (i : 0 .. 2) { if :: known & BIT(i) -> going[i] = 1 :: else -> skip fi }
         i = 0
       } }
  :: atomic {
       !done && hphase == kNormal && COMMITTED(0) && COMMITTED(1) && COMMITTED(2) -> done = 1
     }
  od
}

/* --- environment ----------------------------------------------------------------------------- */

inline wipe(k) { do :: nempty(peer[k]) -> peer[k]?_, _, _, _ :: else -> break od }
inline maybe_wipe(k) { if :: skip :: nempty(peer[k]) -> wipe(k) fi }

/* What a dead process has sent may or may not arrive. */
inline die(x) {
  up[x] = Dead;
  maybe_wipe(x * 3 + (x + 1) % 3); maybe_wipe(x * 3 + (x + 2) % 3);
  d_step {
    wipe(((x + 1) % 3) * 3 + x); wipe(((x + 2) % 3) * 3 + x);
    phase[x] = kSealed; ver[x] = NONE; held[x] = 0; sums[x] = 0; ahead[x] = 0; makes[x] = 0;
    wanted[x] = 0; members[x] = 0; target[x] = NONE; gen[x] = 0;
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
  od
}

/* Runs when no other process can run. */
proctype Monitor() {
end:
  timeout ->
#ifdef REACH
  assert(!done);
#endif
  PROPERTY(L1, done)
}

init {
  d_step {
    known = (JOIN -> 3 : 7); hgen = 1; newest = FIRST;
    for (i : 0 .. 2) {
      if
      :: known & BIT(i) ->
         up[i] = Run; gen[i] = 1; phase[i] = kActive; ver[i] = FIRST; members[i] = known;
         held[i] = OWN(known, i)
      :: else -> skip
      fi
    }
  }
  atomic {
    run Worker(0); run Worker(1); run Worker(2); run Head(); run Environment(); run Monitor()
  }
}

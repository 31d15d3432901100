/* The leases of the outbox: nodes, their clocks, the provider, and the rows of the table `outbox`.
 * Documentation/Proof/LeaseModel.md explains it, and Scripts/proof/model checks it.
 *
 * A comment "code: FILE: FUNCTION: TEXT" says which line of code a step is. Scripts/proof/model fails if the text is not in
 * that function any more; FUNCTION "-" means the whole file.
 */

/* Bounds */
#ifndef NODES
#define NODES 2    /* nodes on one database */
#endif
#ifndef NOTES
#define NOTES 1    /* notifications; two have the same collapse id */
#endif
#ifndef ROWS
#define ROWS 2     /* ids of rows */
#endif
#define TRIES 3    /* tries in the memory of all nodes at one time */
#ifndef MOST
#define MOST 3     /* the most tries of a row */
#endif
#define MOST_ALLOWED 2 /* more causes than tries that can follow are not counted */
#ifndef END
#define END 11     /* the last tick */
#endif
#ifndef KILLS
#define KILLS 1    /* kill -9 */
#endif
#ifndef FAULTS
#define FAULTS 2   /* commits that fail, or whose answer is lost */
#endif
#ifndef JUMPS
#define JUMPS 0    /* jumps of a clock */
#endif

/* Times, in ticks */
#define ANSWER 2   /* the longest answer of a provider */
#define DELAY 1    /* the most that starting a try and writing its result take together */
#define SKEW 1     /* the most by which clocks differ that are not called wrong */
#ifndef LEASE
#define LEASE 5    /* ANSWER + DELAY + SKEW, and one tick more */
#endif
#define LONGEST_LEASE 6
#define LONGEST_PAUSE 8
#define PAUSE 1    /* until the next try */
#define AGE 7      /* the greatest age of an entry */
#define WRONG 6    /* how far a wrong clock is ahead or behind: more than a lease */

/* State: the database */

typedef Row { byte note; byte attempts; byte due; byte expires };  /* note 0: there is no row */
Row row[ROWS];
bit used[ROWS];       /* whether the id was ever given */

/* State: the nodes' memory */

/* The state of a try, in a node's memory:
 *   HandedIn    a caller waits, nothing was sent
 *   Calling     sent; the caller waits for the answer
 *   Keeping     the entry is being stored; its caller waits, and the request may be under way
 *   Leased      taken from the outbox, not sent yet
 *   UnderWay    sent, and nobody waits; held under a lease, or not if the entry could not be stored
 *   Answered    the result is known, and not written
 *   Unsettled   the result could not be written, and is written before this node leases anything again
 * Its result: Accepted and Refused remove the entry, Later postpones it (not accepted, or unknown), GivenUp counts and removes it.
 */
mtype = { Free, HandedIn, Calling, Keeping, Leased, UnderWay, Answered, Unsettled };
mtype = { Outstanding, Accepted, Refused, Later, GivenUp };
#define NONE 255

typedef Try {
  mtype state = Free;
  mtype result = Outstanding;
  byte node; byte note;
  byte id; byte attempts; byte due;  /* the lease; id NONE: there is none */
  byte expires;
  byte at;            /* when to try again */
  byte delay;         /* what is left of DELAY */
  byte wait           /* what is left of ANSWER */
};
Try try[TRIES];

/* State: the clocks */

byte now_ = 0;                /* the true time */
byte ahead[NODES];            /* a node's clock less the true time, plus WRONG */
bit doubted[NODES];           /* whether the clock is doubted */
byte setBack[NODES];          /* ticks until the queues are corrected, plus one; 0: nothing is to be corrected */
bit wrong;                    /* whether a clock was ever wrong */
#define CLOCK(n) (now_ + ahead[n])

/* State: what the world knows */

typedef Note {
  bit handedIn;
  bit promised;   /* answered 200 */
  bit ended;      /* accepted; or reported dead or refused; or given up and counted; or replaced by a newer one */
  byte allowed;   /* how often it may still be sent: once, and once more for each documented cause */
  byte born
};
Note note[NOTES + 1];
byte kills, faults, jumps;

/* The steps of the database: each is one committed transaction. The table in outbox.steps lists what they do. */

/* code: Sources/Base/SQL/LeasedQueue.swift: init: due_at <= $1 */
#define IS_DUE(r, clock) (row[r].note && row[r].due <= (clock))

/* code: Sources/Base/SQL/LeasedQueue.swift: init: SET due_at = $2, attempts = attempts + 1 */
/* code: Sources/Base/SQL/LeasedQueue.swift: take: let end = now + seconds */
inline take(r, clock) {
  row[r].due = (clock) + LEASE;
  row[r].attempts++
}

/* code: Sources/Base/SQL/LeasedQueue.swift: isHeld: "\(key) = $1 AND attempts = $2 AND due_at = $3" */
#if defined(BY_ID)
#define IS_HELD(r, a, d) (row[r].note)
#elif defined(WITHOUT_ATTEMPTS)
#define IS_HELD(r, a, d) (row[r].note && row[r].due == (d))
#elif defined(WITHOUT_DUE)
#define IS_HELD(r, a, d) (row[r].note && row[r].attempts == (a))
#else
#define IS_HELD(r, a, d) (row[r].note && row[r].attempts == (a) && row[r].due == (d))
#endif

/* code: Sources/Base/SQL/LeasedQueue.swift: removal: "DELETE FROM \(table) WHERE \(isHeld)" */
inline remove(r, tries, due_) {
  if
  :: IS_HELD(r, tries, due_) -> clear(r)
  :: else
  fi
}

inline clear(r) {
  row[r].note = 0; row[r].attempts = 0; row[r].due = 0; row[r].expires = 0
}

/* code: Sources/Base/SQL/LeasedQueue.swift: postponement: SET due_at = $4 */
/* code: Sources/Base/SQL/LeasedQueue.swift: postponement: WHERE \(isHeld) */
inline postpone(r, tries, due_, until) {
  if
  :: IS_HELD(r, tries, due_) -> row[r].due = until
  :: else
  fi
}

/* code: Sources/Base/SQL/LeasedQueue.swift: bringForward: SET due_at = $1 WHERE \(all) AND due_at > $2 */
#define IS_TOO_FAR(r, clock, longest) (row[r].note && row[r].due > (clock) + (longest))
inline bringForward(r, clock, longest) {
  if
  :: IS_TOO_FAR(r, clock, longest) -> row[r].due = clock
  :: else
  fi
}

/* code: Sources/Domain/Delivery/Outbox/Outbox.swift: -: VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1) */
/* code: Sources/Domain/Delivery/Outbox/Outbox.swift: -: created_at = excluded.created_at, due_at = excluded.due_at, */
/* code: Sources/Domain/Delivery/Outbox/Outbox.swift: -: attempts = outbox.attempts + 1 */
inline insert(r, what, due_) {
  row[r].note = what; row[r].attempts++; row[r].due = due_
}

#ifdef TABLE
#include "steps.pml"
#else
#include "world.pml"
#endif

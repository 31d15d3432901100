/* The world around the steps of outbox.pml: who takes them when, and what may go wrong. */

/* What a trail says: the true tick, and what happens. Verification prints nothing. */
#define say(text, who, what) printf("%d: ", now_); printf(text, who, what); printf("\n")
#define saySo(r, text, k) printf("%d: ", now_); printf(text, try[k].node, try[k].note); \
  printf(": row %d has attempts %d, due %d\n", r, row[r].attempts, row[r].due - (row[r].note -> WRONG : 0))

/* What is looked at */

byte i_, r_;
bit there_;

/* Nothing that is promised is lost. */
inline lookAtPromises() {
  i_ = 1;
  do
  :: i_ > NOTES -> break
  :: else ->
    there_ = 0; r_ = 0;
    do
    :: r_ == ROWS -> break
    :: else -> there_ = there_ | (row[r_].note == i_); r_++
    od;
    assert(!note[i_].promised || there_ || note[i_].ended);
    i_++
  od;
  i_ = 0; r_ = 0; there_ = 0
}

#define IS_AT_PROVIDER(k) (try[k].state == Calling || try[k].state == UnderWay || \
  (try[k].state == Keeping && try[k].result == Outstanding))

/* A try is sent. From now on the provider may have accepted it, until it says that it has not. So this assertion is about
 * both what arrives twice and what is under way twice. */
inline countSending(what) {
  assert(note[what].allowed > 0);
  note[what].allowed--
}

/* The provider says that it has not accepted a try, or there is a documented cause for sending it again. */
inline allowSending(what) {
  note[what].allowed = (note[what].allowed < MOST_ALLOWED -> note[what].allowed + 1 : MOST_ALLOWED)
}

/* Whether this try has been sent, and the provider may have accepted it. */
#define MAY_BE_ACCEPTED(k) (IS_AT_PROVIDER(k) || \
  ((try[k].state == Answered || try[k].state == Unsettled) && try[k].result == Accepted))

/* Whether the row's lease is held by this try, which sends or has sent it. */
#define HOLDS(k, r) (try[k].id == r && try[k].attempts == row[r].attempts && try[k].due == row[r].due && \
  (try[k].state == Leased || try[k].state == UnderWay || (try[k].state == Answered && try[k].result == Accepted)))
#define IS_LEASED(r) (HOLDS(0, r) || HOLDS(1, r) || HOLDS(2, r))

/* A wrong clock that ends somebody's lease is a documented cause (Documentation/Proof/SimulatedWorld.md). */
inline excuseClock(r) {
  if
  :: wrong && IS_LEASED(r) -> allowSending(row[r].note)
  :: else
  fi
}

inline forget(k) {
  try[k].state = Free; try[k].result = Outstanding; try[k].node = 0; try[k].note = 0; try[k].id = 0;
  try[k].attempts = 0; try[k].due = 0; try[k].expires = 0; try[k].at = 0; try[k].delay = 0; try[k].wait = 0
}

/* The first place that is free: which one a try gets makes no difference. */
#define IS_NEXT(k) (try[k].state == Free && (k < 1 || try[0].state != Free) && (k < 2 || try[1].state != Free))

/* Whether an id is free, and whether there is one for one more entry. */
#ifdef REUSE
#define IS_FREE(r) (!row[r].note)  /* SQLite gives the id of a removed row again */
#else
#define IS_FREE(r) (!used[r])
#endif
#define HAS_ROOM (IS_FREE(0) || IS_FREE(ROWS - 1) || (NOTES > 1 && (row[0].note || row[ROWS - 1].note)))

/* The caller's request */

/* The last tick at which a notification is handed in. */
#define MAY_COME(what) (what == 1 -> 0 : ANSWER)

/* code: Sources/Domain/Delivery/Deliverer.swift: deliver: var decisions = await sendInRequests( */
inline handIn(k, who, what) {
  d_step {
    IS_NEXT(k) && !note[what].handedIn &&
    (what == 1 || note[1].handedIn) && now_ <= MAY_COME(what) ->
    try[k].state = HandedIn; try[k].node = who; try[k].note = what; try[k].id = NONE; try[k].delay = DELAY;
    say("node %d is handed notification %d", who, what);
    note[what].handedIn = 1; note[what].allowed = 1; note[what].born = now_
  }
}

/* code: Sources/Domain/Delivery/Deliverer+Batch.swift: attempt: var answer = await sender.attempt( */
inline sendForCaller(k) {
  d_step {
    try[k].state == HandedIn ->
    countSending(try[k].note);
    say("node %d sends notification %d for its caller", try[k].node, try[k].note);
    try[k].state = Calling; try[k].wait = ANSWER
  }
}

/* The provider's answer before the deadline ends the call.
 * code: Sources/Domain/Delivery/Deliverer.swift: deliver: return await record(decisions, on: deliveries) */
inline answerCaller(k) {
  atomic {
    try[k].state == Calling ->
    if
    :: say("node %d has the provider's answer to notification %d, and says so", try[k].node, try[k].note);
      note[try[k].note].promised = 1; note[try[k].note].ended = 1; forget(k)  /* accepted, dead or refused */
    :: say("node %d is told to send notification %d later", try[k].node, try[k].note);
      allowSending(try[k].note);  /* not accepted, or the connection breaks */
      try[k].result = Later; try[k].due = CLOCK(try[k].node) + PAUSE; try[k].wait = 0; beginKeeping(k)
    fi;
    lookAtPromises()
  }
}

/* The deadline: the request goes on, and its entry is kept under a lease.
 * code: Sources/Domain/Delivery/Deliverer.swift: deliver: ?? now() + lease */
inline deadline(k) {
  atomic {
    try[k].state == Calling ->
    say("node %d waits no more for the answer to notification %d", try[k].node, try[k].note);
    try[k].due = CLOCK(try[k].node) + LEASE; beginKeeping(k);
    lookAtPromises()
  }
}

inline beginKeeping(k) {
  try[k].state = Keeping;
#ifdef EARLY_200
  note[try[k].note].promised = 1
#else
  skip
#endif
}

/* code: Sources/Domain/Delivery/Deliverer.swift: deliver: let results = try await outbox.keep(additions)
 * code: Sources/Domain/Delivery/Outbox/Outbox.swift: row: let expiry = min(now + maxAge, push.expiration(from: now) ?? .distantFuture)
 * code: Sources/Base/SQL/DatabaseWait.swift: waiting: } catch let error as DatabaseError where error.isTransient && error.code != .closed { */
inline keep(k) {
  atomic {
    try[k].state == Keeping ->
    if
    :: HAS_ROOM -> commitKept(k); saySo(r_, "node %d has kept notification %d and answers 200", k);
      note[try[k].note].promised = 1;
      try[k].id = r_; try[k].attempts = row[r_].attempts; r_ = 0; endKeeping(k)
    :: faults < FAULTS && HAS_ROOM -> faults++;  /* done, and the answer lost: it may be repeated */
      commitKept(k); saySo(r_, "node %d has kept notification %d, and does not know it", k); r_ = 0;
      allowSending(try[k].note);
      if
      :: HAS_ROOM
      :: endKeeping(k)
      fi
    :: faults < FAULTS -> faults++; say("node %d cannot keep notification %d, and answers 503", try[k].node, try[k].note);
      endKeeping(k)  /* not done: 503 */
    fi;
    lookAtPromises()
  }
}

/* code: Sources/Domain/Delivery/Deliverer.swift: deliver: handleLateAnswer(answer, to: deliveries[index], start, under: kept?[place].lease) */
inline endKeeping(k) {
  if
  :: try[k].result == Outstanding -> try[k].state = UnderWay
  :: else -> forget(k)
  fi
}

/* Leaves the row's place in r_. Two notifications have the same collapse id. */
inline commitKept(k) {
  if
  :: NOTES > 1 && row[0].note -> r_ = 0
  :: else ->
    if
    :: (NOTES > 1 && row[ROWS - 1].note) || !IS_FREE(0) -> r_ = ROWS - 1
    :: else -> r_ = 0
    fi
  fi;
  if
  :: row[r_].note && row[r_].note != try[k].note -> note[row[r_].note].ended = 1
  :: else
  fi;
  used[r_] = 1;
  insert(r_, try[k].note, try[k].due);
  row[r_].expires = CLOCK(try[k].node) + AGE
}
/* A node's rounds */

#define HAS_UNSETTLED(n) ((try[0].state == Unsettled && try[0].node == n) || \
  (try[1].state == Unsettled && try[1].node == n) || (try[2].state == Unsettled && try[2].node == n))

/* code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: lease: try await settle()
 * code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: take: let latestEnd = isClockTrusted() ? now + maxAge : .distantFuture
 * code: Sources/Domain/Delivery/Outbox/Outbox.swift: init: CASE WHEN expires_at > $7 THEN $7 ELSE expires_at END */
inline lease(k, who, r) {
  atomic {
    IS_NEXT(k) && !HAS_UNSETTLED(who) && IS_DUE(r, CLOCK(who)) &&
    row[r].attempts < MOST ->
    excuseClock(r);
    take(r, CLOCK(who));
    if
    :: !doubted[who] && row[r].expires > CLOCK(who) + AGE -> row[r].expires = CLOCK(who) + AGE
    :: else
    fi;
    if
    :: try[k].state = Leased; try[k].node = who; try[k].note = row[r].note; try[k].id = r;
      try[k].attempts = row[r].attempts; try[k].due = row[r].due; try[k].expires = row[r].expires;
      try[k].delay = DELAY;
      saySo(r, "node %d leases notification %d", k);
#ifdef EARLY_REMOVAL
      clear(r)
#else
      skip
#endif
    :: faults < FAULTS -> faults++;  /* done, and the answer lost: nobody has the lease */
      say("node %d has leased notification %d, and does not know it", who, row[r].note)
    fi;
    lookAtPromises()
  }
}

/* code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: isOver: end <= now() && isClockTrusted() */
#ifdef EXPIRY_IN_DOUBT
#define IS_OVER(k) (try[k].expires <= CLOCK(try[k].node))
#else
#define IS_OVER(k) (try[k].expires <= CLOCK(try[k].node) && !doubted[try[k].node])
#endif

/* code: Sources/Domain/Delivery/Outbox/OutboxSender.swift: round: let decisions = await deliverer.sendAgain(current, on: route, within: Self.timeout) */
inline sendLeased(k) {
  d_step {
    try[k].state == Leased && !IS_OVER(k) ->
    countSending(try[k].note);
    say("node %d sends notification %d", try[k].node, try[k].note);
    try[k].state = UnderWay; try[k].wait = ANSWER; try[k].expires = 0
  }
}

/* code: Sources/Domain/Delivery/Outbox/OutboxSender.swift: round: await recordExpired(dropped.filter(outbox.isOver), on: route) */
inline giveUp(k) {
  d_step {
    try[k].state == Leased && IS_OVER(k) ->
#ifndef BEHIND
    assert(now_ >= note[try[k].note].born + AGE - SKEW);
#endif
    say("node %d gives up notification %d for its age", try[k].node, try[k].note);
    note[try[k].note].ended = 1;
    try[k].state = Answered; try[k].result = GivenUp
  }
}

/* Nothing was sent, because the registrations could not be looked up.
 * code: Sources/Domain/Delivery/Outbox/OutboxSender.swift: round: try? await outbox.settle(entries.map { ($0.lease, .init(until: now)) }) */
inline giveBack(k) {
  d_step {
    try[k].state == Leased && !IS_OVER(k) ->
    say("node %d has not sent notification %d", try[k].node, try[k].note);
    try[k].state = Answered; try[k].result = Later; try[k].at = CLOCK(try[k].node)
  }
}

/* The provider's answer. A connection that breaks and an answer that does not come in the longest time are documented
 * causes.
 * code: Sources/Domain/Providers/Outcome/Outcome.swift: -: case .connectionLost: (.connectionLost, .connection)
 * code: Sources/Domain/Providers/Outcome/Outcome.swift: -: case .unanswered: (.timeout, .tokenOrRoute)
 * code: Sources/Domain/Delivery/Deliverer+Outbox.swift: handleLateAnswer: if let lease, decision.result != .queued || decision.retry != nil {
 * code: Sources/Domain/Delivery/Deliverer+Outbox.swift: handleLateAnswer: if decision.result != .queued { _ = await record([decision], on: [recorded]) }
 * code: Sources/Domain/Delivery/Deliverer+Send.swift: decide: case .retry(_, _, .process): */
inline answer(k) {
  atomic {
    try[k].state == UnderWay ->
    if
    :: say("node %d is told that notification %d is accepted", try[k].node, try[k].note);
      note[try[k].note].ended = 1; endTry(k, Accepted)
    :: say("node %d is told that notification %d is refused", try[k].node, try[k].note);
      note[try[k].note].ended = 1; allowSending(try[k].note); endTry(k, Refused)
    :: say("node %d is told to send notification %d later, or nothing", try[k].node, try[k].note);
      allowSending(try[k].note); endTry(k, Later)  /* not accepted, the connection breaks, or no answer comes */
    :: say("node %d ends before the answer to notification %d", try[k].node, try[k].note);
      allowSending(try[k].note); forget(k)
    fi
  }
}

inline endTry(k, outcome) {
  if
  :: try[k].id == NONE -> forget(k)
  :: else ->
    try[k].state = Answered; try[k].result = outcome; try[k].wait = 0;
    if
    :: outcome == Later -> try[k].at = CLOCK(try[k].node) + PAUSE
    :: else
    fi
  fi
}

/* code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: settle: guard let postponement else { return try connection.run(queue.removal(of: lease.row)) > 0 }
 * code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: statements: of: lease.row, until: until, changing: "reason = COALESCE($5, reason), doubts = doubts + $6"
 * code: Sources/Domain/Delivery/Outbox/Outbox+Leases.swift: settle: unsettled.withLock { $0 = waiting + $0 } */
inline settle(k) {
  atomic {
    (try[k].state == Answered || try[k].state == Unsettled) ->
    if
    :: commitSettled(k); saySo(try[k].id, "node %d has written what became of notification %d", k); forget(k)
    :: faults < FAULTS -> faults++; commitSettled(k); setAside(k);
      saySo(try[k].id, "node %d has written what became of notification %d, and does not know it", k)
    :: faults < FAULTS -> faults++; setAside(k);
      say("node %d cannot write what became of notification %d", try[k].node, try[k].note);
      if
      :: try[k].result == Accepted -> allowSending(try[k].note)
      :: else
      fi
    fi;
    lookAtPromises()
  }
}

inline commitSettled(k) {
  if
  :: try[k].result == Later -> postpone(try[k].id, try[k].attempts, try[k].due, try[k].at)
  :: else -> remove(try[k].id, try[k].attempts, try[k].due)
  fi
}

inline setAside(k) {
  try[k].state = Unsettled; try[k].delay = 0; try[k].expires = 0;
}

/* What goes wrong */

/* kill -9: the memory is gone, and what was sent stays sent. The node may come back at once, or never take a step. */
inline kill(who) {
  atomic {
    kills < KILLS -> kills++; printf("%d: node %d is killed\n", now_, who);
    killTry(0, who); killTry(1, who); killTry(2, who);
    lookAtPromises()
  }
}

inline killTry(k, who) {
  if
  :: try[k].state != Free && try[k].node == who ->
    if
    :: MAY_BE_ACCEPTED(k) -> allowSending(try[k].note)
    :: else
    fi;
    forget(k)
  :: else
  fi
}

/* code: Sources/Base/Platform/ClockGuard.swift: compareWithMonotonicClock: startDoubt(.jumped(by: jump), from: expected, reading)
 * code: Sources/Base/Platform/ClockGuard.swift: recordStepBack: setBackAt = reading.monotonic */
inline jump(who, to) {
  d_step {
    jumps < JUMPS && ahead[who] != to ->
    printf("%d: the clock of node %d is put to %d\n", now_, who, now_ + to - WRONG);
    jumps++; wrong = 1; doubted[who] = 1;
    if
    :: to < ahead[who] -> setBack[who] = LONGEST_LEASE + 1
    :: else
    fi;
    ahead[who] = to
  }
}

/* code: Sources/Base/Platform/ClockGuard.swift: compareWithMonotonicClock: } else if doubt != nil, reading.monotonic - steadySince >= Self.probation { */
inline trust(who) {
  d_step { doubted[who] && ahead[who] >= WRONG - SKEW && ahead[who] <= WRONG + SKEW -> doubted[who] = 0 }
}

/* code: Sources/Base/Platform/ClockWatch.swift: run: for queue in queues { try await queue(isSetBack) }
 * code: Sources/Base/Platform/ClockWatch.swift: run: time.update { $0.isSetBack(for: LeasedQueue.longestLease, $1) } */
inline correct(who, r) {
  d_step {
    IS_TOO_FAR(r, CLOCK(who), LONGEST_PAUSE) -> excuseClock(r); bringForward(r, CLOCK(who), LONGEST_PAUSE);
    printf("%d: node %d brings row %d forward\n", now_, who, r)
  }
}

inline correctAfterSetBack(who) {
  atomic {
    setBack[who] == 1 ->
    printf("%d: node %d brings all forward that is due later than a lease\n", now_, who);
    setBack[who] = 0; r_ = 0;
    do
    :: r_ == ROWS -> break
    :: else ->
      if
      :: IS_TOO_FAR(r_, CLOCK(who), LONGEST_LEASE) -> excuseClock(r_); bringForward(r_, CLOCK(who), LONGEST_LEASE)
      :: else
      fi;
      r_++
    od;
    r_ = 0
  }
}

/* A tick. It waits for nodes that have used up their delay, and for the longest answer.
 * code: Sources/Domain/Delivery/Deliverer+Outbox.swift: -: var lease: TimeInterval { answerTimeout + 15 } */
#ifdef STALLS
#define HAS_DELAY(k) (try[k].delay > 0 || try[k].state == Leased)
#else
#define HAS_DELAY(k) (try[k].delay > 0)
#endif
#define MAY_WAIT(k) (try[k].state == Free || try[k].state == Unsettled || \
  ((try[k].state == Keeping || try[k].state == Leased || try[k].state == Answered) && HAS_DELAY(k)) || \
  (try[k].state == UnderWay && try[k].wait > 0))

inline tick() {
  d_step {
    now_ < END && MAY_WAIT(0) && MAY_WAIT(1) && MAY_WAIT(2) ->
    now_++;
    tickTry(0); tickTry(1); tickTry(2);
    tickNode(0);
#if NODES > 1
    tickNode(1)
#endif
  }
}

inline tickTry(k) {
  if
  :: try[k].state == UnderWay -> try[k].wait--
  :: (try[k].state == Keeping || try[k].state == Leased || try[k].state == Answered) && try[k].delay > 0 ->
    try[k].delay--;
    if
    :: try[k].state == Keeping && try[k].result == Outstanding && try[k].wait > 0 -> try[k].wait--
    :: else
    fi
  :: else
  fi
}

inline tickNode(who) {
  if
  :: setBack[who] > 1 -> setBack[who]--
  :: else
  fi
}

#define OF_EACH_TRY(step) :: step(0) :: step(1) :: step(2)

active proctype World() {
  atomic {
    ahead[0] = WRONG;
#if NODES > 1
    if
    :: ahead[1] = WRONG - SKEW
    :: ahead[1] = WRONG
    :: ahead[1] = WRONG + SKEW
    fi;
#endif
#if JUMPS > 0
    if  /* a node may begin with a wrong clock */
    :: skip
    :: ahead[0] = 2 * WRONG; doubted[0] = 1; wrong = 1
#if NODES > 1
    :: ahead[1] = 2 * WRONG; doubted[1] = 1; wrong = 1
#endif
    fi
#else
    skip
#endif
  }
end:
  do
  :: tick()
  :: handIn(0, 0, 1)
#if NOTES > 1
  :: handIn(0, 0, 2) :: handIn(1, 0, 2) :: handIn(2, 0, 2)
#if NODES > 1
  :: handIn(0, 1, 2) :: handIn(1, 1, 2) :: handIn(2, 1, 2)
#endif
#endif
  OF_EACH_TRY(sendForCaller)
  OF_EACH_TRY(answerCaller)
  OF_EACH_TRY(deadline)
  OF_EACH_TRY(keep)
  OF_EACH_TRY(sendLeased)
  OF_EACH_TRY(giveUp)
  OF_EACH_TRY(giveBack)
  OF_EACH_TRY(answer)
  OF_EACH_TRY(settle)
  :: lease(0, 0, 0) :: lease(1, 0, 0) :: lease(2, 0, 0)
  :: correct(0, 0) :: correctAfterSetBack(0) :: trust(0) :: kill(0)
  :: jump(0, WRONG) :: jump(0, 2 * WRONG)
#ifdef BEHIND
  :: jump(0, 0)
#endif
#if ROWS > 1
  :: lease(0, 0, 1) :: lease(1, 0, 1) :: lease(2, 0, 1)
  :: correct(0, 1)
#endif
#if NODES > 1
  :: lease(0, 1, 0) :: lease(1, 1, 0) :: lease(2, 1, 0)
  :: correct(1, 0) :: correctAfterSetBack(1) :: trust(1) :: kill(1)
  :: jump(1, WRONG) :: jump(1, 2 * WRONG)
#ifdef BEHIND
  :: jump(1, 0)
#endif
#if ROWS > 1
  :: lease(0, 1, 1) :: lease(1, 1, 1) :: lease(2, 1, 1)
  :: correct(1, 1)
#endif
#endif
  od
}

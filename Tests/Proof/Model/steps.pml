/* Prints what each step of the database does to a row, as it was and as it is afterwards: ATTEMPTS@DUE, or - if there is
 * none. The table, outbox.steps, is what the real outbox is compared with. */

#define PRINT_ROW if :: row[0].note -> printf("%d@%d", row[0].attempts, row[0].due) :: else -> printf("-") fi
#define PRINT_RESULT printf(" -> "); PRINT_ROW; printf("\n")

active proctype Table() {
  byte attempts, due, held, end, time;

  printf("ticks: lease %d, longest lease %d, longest pause %d\n", LEASE, LONGEST_LEASE, LONGEST_PAUSE);
  select(attempts : 0..2);
  if
  :: attempts > 0 -> select(due : 0..3)
  :: attempts > 0 -> select(due : 8..11)
  :: attempts == 0
  fi;
  row[0].note = (attempts > 0 -> 1 : 0); row[0].attempts = attempts; row[0].due = due;
  if
  :: due < 4 -> select(time : 0..3);
    d_step {
      printf("lease "); PRINT_ROW; printf(" at %d", time);
      if
      :: IS_DUE(0, time) -> take(0, time)
      :: else
      fi;
      PRINT_RESULT
    }
  :: due < 4 -> select(time : 4..5);
    d_step { printf("keep "); PRINT_ROW; printf(" until %d", time); insert(0, 1, time); PRINT_RESULT }
  :: due < 4 -> select(held : 1..2); select(end : 0..3);
    d_step {
      printf("remove "); PRINT_ROW; printf(" under %d@%d", held, end);
      remove(0, held, end);
      PRINT_RESULT
    }
  :: due < 4 -> select(held : 1..2); select(end : 0..3); select(time : 4..5);
    d_step {
      printf("postpone "); PRINT_ROW; printf(" under %d@%d until %d", held, end, time);
      postpone(0, held, end, time);
      PRINT_RESULT
    }
  :: due > 4 -> select(time : 1..2);
    d_step {
      printf("bring-forward "); PRINT_ROW; printf(" at %d", time);
      bringForward(0, time, LONGEST_PAUSE);
      PRINT_RESULT
    }
  :: due > 4 -> select(time : 1..4);
    d_step {
      printf("set-back "); PRINT_ROW; printf(" at %d", time);
      bringForward(0, time, LONGEST_LEASE);
      PRINT_RESULT
    }
  fi;
}

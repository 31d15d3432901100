/// The commit that the program is built from; empty where the build was not told (PUSH_BOUNCER_COMMIT).
const char *push_bouncer_commit(void);

// Names that a program may give, each of which a page must only show.
export const HOSTILE = ['<img src=x onerror="window.ran=1">', "'\"]};window.ran=1;//</script><script>window.ran=1</script>", "bell \u0007 and escape \u001b[31m", "\u202eright to left"];

"""What every front end needs to put foreign text on a terminal; standard library only."""

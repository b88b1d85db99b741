"""What all readers share: values and members of files, dialogues, transcripts, problems."""

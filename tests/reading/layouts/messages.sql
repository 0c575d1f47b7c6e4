INSERT INTO answers (question, answer) VALUES ('Which tyre?', '2.4 bar'), ('Oil?', 'Every year');

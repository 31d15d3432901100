package org.example.chat;

import android.content.SharedPreferences;
import com.google.firebase.messaging.*;
import java.io.IOException;
import java.util.Map;
import pushbouncer.*;

/** What goes where in an app with Firebase; README.md says what Chat, the app's own, does. */
public final class ChatMessagingService extends FirebaseMessagingService {
  @Override
  public void onMessageReceived(RemoteMessage message) {
    PushClient.Notification notification = Chat.push(this).received(message.getData());
    if (notification != null) Chat.show(this, notification);
  }

  @Override
  public void onDeletedMessages() {
    Chat.catchUp(this);
  }

  @Override
  public void onNewToken(String token) {
    Chat.subscribe(this, token);
  }

  /** An account's keys: in preferences that are in no backup. */
  static Store store(SharedPreferences preferences) {
    return new Store() {
      @Override
      public String get(String name) {
        return preferences.getString(name, null);
      }

      @Override
      public void put(Map<String, String> texts) throws IOException {
        SharedPreferences.Editor editor = preferences.edit();
        texts.forEach(editor::putString);
        if (!editor.commit()) throw new IOException("The keys cannot be kept: is there no room?");
      }
    };
  }
}
